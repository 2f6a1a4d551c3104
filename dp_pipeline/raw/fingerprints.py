"""Keyed fingerprints of files: one of all bytes, and one by ranges, which threads check together.

The first says which table it is: the ledger knows rows by it, whatever program prepared them. It is
a digest from the first byte to the last, so one thread makes it, a gigabyte in a second. Of a file
of more than one range a second one is kept, over the digests of its ranges. It is made in the same
pass, and names the first one: where it fits, the bytes are those that the first one was made of.
Where it is missing, or was made of a table that another program has replaced, the first one is
asked.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

BYTES_A_RANGE = 1 << 26
"""Of each range but the last. Files of no more are one range, which no second thread would help."""

_BYTES_A_READ = 1 << 20


@dataclass(frozen=True)
class Fingerprints:
    """Of one file, under the key of a snapshot (``Snapshot.secret``).

    whole    of its bytes
    ranges   of the digests of its ranges; empty where it has one range, or nobody has made it
    """

    whole: str
    ranges: str = ""


def fingerprints_of(path: Path, key: bytes) -> Fingerprints:
    """Of the bytes of a file, which are read once."""
    whole, digests = hashlib.sha256(), []
    for start in _starts(path):
        one = hashlib.sha256()
        for part in _range(path, start):
            whole.update(part)
            one.update(part)
        digests.append(one.digest())
    found = _keyed(key, whole.digest())
    return Fingerprints(found, _of_ranges(key, found, digests) if len(digests) > 1 else "")


def is_as_stored(path: Path, key: bytes, stored: Fingerprints) -> bool:
    """Whether a file holds the bytes that these fingerprints were made of."""
    if not path.is_file():
        return False
    if stored.ranges and hmac.compare_digest(stored.ranges, _by_ranges(path, key, stored.whole)):
        return True
    return hmac.compare_digest(stored.whole, fingerprint_of(path, key))


def fingerprint_of(path: Path, key: bytes) -> str:
    """The one of all bytes of a file."""
    with path.open("rb") as file:
        return _keyed(key, hashlib.file_digest(file, "sha256").digest())


def fingerprints_of_whole(paths: Sequence[Path], key: bytes) -> list[str]:
    """The same of several files, a thread a core."""
    with _threads() as threads:
        return list(threads.map(partial(fingerprint_of, key=key), paths))


def fingerprint_of_content(content: bytes, key: bytes) -> str:
    """The same of bytes in memory."""
    return _keyed(key, hashlib.sha256(content).digest())


def _by_ranges(path: Path, key: bytes, whole: str) -> str:
    """The one by ranges, if ``whole`` is the one of all bytes."""
    with _threads() as threads:
        return _of_ranges(key, whole, list(threads.map(partial(_digest, path), _starts(path))))


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1)


def _digest(path: Path, start: int) -> bytes:
    one = hashlib.sha256()
    for part in _range(path, start):
        one.update(part)
    return one.digest()


def _starts(path: Path) -> range:
    return range(0, max(1, path.stat().st_size), BYTES_A_RANGE)


def _range(path: Path, start: int) -> Iterator[memoryview]:
    """The bytes of a range, in parts; each is gone when the next one is asked for."""
    left, place = BYTES_A_RANGE, memoryview(bytearray(_BYTES_A_READ))
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while left and (many := file.readinto(place[:left])):
            yield place[:many]
            left -= many


def _of_ranges(key: bytes, whole: str, digests: list[bytes]) -> str:
    return _keyed(key, f"{BYTES_A_RANGE} bytes a range of {whole}: ".encode() + b"".join(digests))


def _keyed(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, digestmod="sha256").hexdigest()

"""Keyed fingerprints of files, which reveal nothing of their bytes without the key.

A file is read in ranges by several threads; its fingerprint is a keyed digest of their digests.
"""

import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BYTES_A_RANGE = 1 << 26  # Bytes of each range but the last; another number gives other fingerprints
_BYTES_A_READ = 1 << 20


def fingerprint_of(path: Path, key: bytes) -> str:
    """Return the keyed fingerprint of a file's bytes, as hex."""
    return fingerprints_of([path], key)[0]


def fingerprints_of(paths: Sequence[Path], key: bytes) -> list[str]:
    """Return the keyed fingerprint of each file's bytes, read by one thread for each core."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        files = [
            [threads.submit(_digest, path, start) for start in _starts(path.stat().st_size)]
            for path in paths
        ]
        return [_combine(key, (digest.result() for digest in ranges)) for ranges in files]


def fingerprint_of_content(content: bytes, key: bytes) -> str:
    """Return the keyed fingerprint of bytes, as hex: that of a file with this content."""
    view = memoryview(content)
    ranges = (view[start : start + BYTES_A_RANGE] for start in _starts(len(content)))
    return _combine(key, (hashlib.sha256(content_range).digest() for content_range in ranges))


def _starts(size: int) -> range:
    return range(0, max(1, size), BYTES_A_RANGE)


def _digest(path: Path, start: int) -> bytes:
    digest, remaining = hashlib.sha256(), BYTES_A_RANGE
    buffer = memoryview(bytearray(_BYTES_A_READ))
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while remaining and (count := file.readinto(buffer[:remaining])):
            digest.update(buffer[:count])
            remaining -= count
    return digest.digest()


def _combine(key: bytes, digests: Iterable[bytes]) -> str:
    first, *further = digests
    message = first
    if further:
        # The prefix separates it from the message of a single range, and of ranges of other sizes.
        message = f"{BYTES_A_RANGE} bytes a range: ".encode() + b"".join((first, *further))
    return hmac.new(key, message, digestmod="sha256").hexdigest()

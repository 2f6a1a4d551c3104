"""The hash chain of a ledger, and the head: a file elsewhere that names the newest row.

Every row contains the hash of the row before it. The chain shows a row that was edited, removed
from the middle or inserted. It does not show rows missing at the end, nor a ledger rewritten from
some row on: a copy of yesterday's ledger is valid and has yesterday's budget. The head names the
newest row, and lies where a restored copy does not overwrite it.

    the ledger's rows            the head names       answer
    -----------------            --------------       ------
    1 … 7                        7                    goes on
    1 … 7                        6, with its hash     goes on: a crash between commit and head
    1 … 5                        7                    refused: rows were lost, or put back
    1 … 7                        6, another hash      refused: another ledger
    1 … 7                        no head              refused: who lost it may have lost rows

The secret keys of the populations, for fingerprints and contribution bounding, are here too.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from dp_pipeline import files
from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.config.system_errors import bounded_bytes, follow_links, system_line
from dp_pipeline.ledger.entries import Charge, Entry, SpendRow

GENESIS: Final = "0" * 64
"""The hash before the first row."""
FORMAT: Final = 1
"""Number of the stored format that this program writes and reads."""


@dataclass(frozen=True)
class Draft:
    """A ledger row that has no number, time and hash yet; its fields are as in ``Entry``."""

    event: str
    population: str
    key: str | None = None
    source: str | None = None
    kind: str | None = None
    nano_epsilon: int = 0
    what: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    spends: Sequence[SpendRow] = ()

    @classmethod
    def of(
        cls,
        charge: Charge | Entry,
        event: str,
        *,
        nano_epsilon: int = 0,
        facts: Mapping[str, str] | None = None,
        spends: Sequence[SpendRow] = (),
    ) -> Self:
        """Return the draft of a ledger row with an event of the release that ``charge`` is for.

        nano_epsilon   what this row charges: 0 unless it reserves the release
        facts          all facts of the row; None: none, not those of ``charge``
        spends         the draws of noise of a settled release
        """
        return cls(
            event=event,
            population=charge.population,
            key=charge.key,
            kind=charge.kind,
            nano_epsilon=nano_epsilon,
            what=charge.what,
            facts=facts or {},
            spends=spends,
        )


@dataclass(frozen=True)
class Tip:
    """The number and the hash of the newest row of a ledger; 0 and GENESIS for an empty one."""

    sequence: int = 0
    hash: str = GENESIS


_COLUMNS = (
    *("sequence", "event", "time", "population", "key", "source", "kind", "nano_epsilon"),
    *("what", "facts", "previous", "state"),
)
_SPEND_COLUMNS = ("ordinal", "what", "mechanism", "epsilon", "scale")

Row = Mapping[str, Any]


def digest(row: Row, children: Sequence[Row]) -> str:
    """Return the SHA-256 of a ledger row, its hash excluded, and of its spends, as hex digits: what
    its hash has to be."""
    content = {name: row[name] for name in _COLUMNS}
    content["spends"] = [[child[name] for name in _SPEND_COLUMNS] for child in children]
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()


def canonical(value: object) -> str:
    """Return a value as canonical JSON: sorted names, no spaces, ASCII only."""
    # A planted blob or float must give another hash, not an exception: hence the default.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


class Chain:
    """A check of the hashes and numbers of ledger rows, in their order.

    tip   the hash of the newest row checked, which the next row has to name

    >>> Chain().expected_sequence
    1
    """

    def __init__(self) -> None:
        self.expected_sequence = 1
        self.tip = GENESIS

    def follow(self, row: Row, children: Sequence[Row]) -> None:
        """Check the next row and make it the tip; raise Damaged if it was changed or is out of
        order."""
        number = f"ledger row {self.expected_sequence}"
        if row["sequence"] != self.expected_sequence:
            raise Damaged(f"{number} is missing: the next row is {row['sequence']}")
        if row["previous"] != self.tip:
            raise Damaged(f"{number} does not follow the row before it")
        if row["hash"] != digest(row, children):
            raise Damaged(f"{number} ({row['event']}) does not match its hash: it was changed")
        self.expected_sequence += 1
        self.tip = row["hash"]


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system inside the block into PipelineError.

    path   the file to name where an error names none
    """
    try:
        yield
    except OSError as error:
        raise PipelineError(f"ledger: {system_line(error, path)}") from None


def make_folders(folder: Path, *below: Path) -> None:
    """Create the folder of a ledger and those ``below`` it, readable by their owner only."""
    with file_errors(folder):
        for new in (folder, *below):
            if not new.is_dir():
                files.make_private(new)
                files.sync(new.parent)
        # Whatever made the folder, what lies in it is for its owner only.
        folder.chmod(0o700)


@contextmanager
def locked(path: Path, *, remove: bool = False) -> Iterator[None]:
    """Hold the exclusive lock of a file during the block; a system error becomes PipelineError.

    remove   whether to delete the file after the block
    """
    lock = files.locked(path, remove=remove)
    with file_errors(path):
        lock.__enter__()
    try:
        yield
    finally:
        with file_errors(path):
            lock.__exit__(None, None, None)


_HASH = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 4096
"""Largest head file that is read; a number and a hash have about 100 bytes."""


class Head:
    """The head file, which names the newest row of a ledger; only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, ledger: Path, *, declared: Path | None) -> Self:
        """Return the head of the ledger in a folder: the declared file, or one next to the
        folder."""
        # Resolved: a rename in the place of a link to another disk would bring the head back here.
        return cls(follow_links(declared or ledger.with_name(f"{ledger.name}.head")))

    def read(self) -> Tip | None:
        """Return the stored number and hash; None without a file, Damaged for an invalid text."""
        with file_errors(self.path):
            try:
                content = bounded_bytes(self.path, max_bytes=_MAX_BYTES)
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            fields = json.loads(content)
            tip = Tip(fields["sequence"], fields["hash"])
            is_tip = type(tip.sequence) is int and tip.sequence >= 0 and _HASH.fullmatch(tip.hash)
        except (ValueError, KeyError, TypeError, RecursionError):
            is_tip = None
        if not is_tip:
            raise Damaged(
                f"The ledger head {self.path} must hold the number and hash of a row, but it does "
                "not: put back a copy"
            )
        return tip

    def begin(self) -> None:
        with file_errors(self.path):
            if not self.path.exists():
                self._write(Tip(), over=False)

    def advance(self, tip: Tip) -> None:
        """Replace the head by the number and hash of a newer row, which is committed already."""
        with file_errors(self.path):
            self._write(tip)

    def _write(self, tip: Tip, *, over: bool = True) -> None:
        files.make_private(self.path.parent)
        content = json.dumps({"sequence": tip.sequence, "hash": tip.hash}) + "\n"
        files.write_atomically(self.path, content.encode(), overwrite=over)


KEY_BYTES = 32


def ensure_key(folder: Path, *, population: str) -> bytes:
    """Return the secret key of a population, 32 random bytes; the first call stores it in
    ``folder``."""
    path = _path(folder, population=population)
    with file_errors(path):
        if not path.exists():
            # Of many processes one wins, and the others read its key.
            files.write_atomically(path, os.urandom(KEY_BYTES), overwrite=False)
    return _read(path, population=population)


def read_key(folder: Path, *, population: str, commitment: str) -> bytes:
    """Return the secret key of a population; Damaged if it is lost or does not match its
    commitment.

    A new key would sample other rows of the same persons, who paid for one sample.
    """
    key = _read(_path(folder, population=population), population=population)
    if key_commitment(key) != commitment:
        raise Damaged(
            f"The key of population {population} in {folder} is not the key that its account was "
            "opened with: put back a copy of the keys"
        )
    return key


def key_commitment(key: bytes) -> str:
    """Return a cryptographic commitment to a key, which identifies but does not reveal it."""
    return hashlib.sha256(b"dp_pipeline ledger key\0" + key).hexdigest()


def _path(folder: Path, *, population: str) -> Path:
    # Hashed: a population is free text, a file name is not.
    return folder / f"{hashlib.sha256(population.encode()).hexdigest()[:32]}.key"


def _read(path: Path, *, population: str) -> bytes:
    with file_errors(path):
        if not path.exists():
            raise Damaged(
                f"The key of population {population} must be in {path}, but it is lost: put back a "
                "copy of it"
            )
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise Damaged(
            f"The key of population {population} must have {KEY_BYTES} bytes in {path}, but it "
            f"has {len(key)}: put back a copy of it"
        )
    return key

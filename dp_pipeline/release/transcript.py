"""Transcript: every question and noisy answer of one release, in order, each on disk before it
is seen.

A model that is run again over its transcript gets the same answers and needs no
rows: replaying is post-processing and costs nothing. An answer that never
reached the disk was never returned, so drawing it again after a crash is the
first time that anybody sees it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dp_pipeline.release.answer_count import AnswerCount
from dp_pipeline.release.durable import make_private, sync
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import Damaged

_HEADER = "release "


@dataclass(frozen=True)
class Record:
    """One question in words and its noisy answer."""

    question: str
    answer: IntArray


class Transcript:
    """The record of one release; on disk when ``path`` is given, else in memory.

    Opening a file drops a torn last record (a crash while writing it: the line
    has no end) and refuses any other damage: a whole last record may have been
    seen, so drawing it again would be a second answer for one charge. The caller
    holds the release's lock. A file begins with a header, made by ``create``
    before the release is charged: a charged release whose file has none has lost
    answers that somebody may have seen.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._count: AnswerCount | None = None
        self._records: list[Record] = []
        self._next = 0
        self._chain = ""
        if path is not None and path.exists():
            self._load(path)

    @staticmethod
    def create(path: Path, key: str, *, salt: bytes = b"") -> None:
        """Make the file of a release that was never charged; one that is there stays as it is.

        salt   secret bytes that the chain begins with, 8 or a multiple of 8: who reads the digest
               in a bundle, and knows most answers, could find the others by trying
        """
        make_private(path.parent)
        line, _ = _encode(_HEADER + key, np.frombuffer(salt, dtype="<i8"), "")
        descriptor, temporary = tempfile.mkstemp(prefix=".transcript.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            # A hard link appears whole or not at all, and never over another file.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            Path(temporary).unlink()
        sync(path.parent)

    def require_begun(self, key: str) -> None:
        """Damaged unless the file begins with the header of this release."""
        if not self._records or self._records[0].question != _HEADER + key:
            raise Damaged(f"transcript {key[:12]}: expected the answers drawn so far, got none")

    def count_in(self, count: AnswerCount) -> None:
        """Count every answer outside of the file before it is returned, from now on.

        Damaged unless the file holds as many as were counted, or the one more that a crash has
        kept from being counted and seen. That one is counted here: it is seen next.
        """
        answers, counted = len(self._records) - 1, count.read()
        if not counted <= answers <= counted + 1:
            raise Damaged(
                f"transcript: expected the {counted} answers that were counted when they were "
                f"drawn, got {answers}"
            )
        if answers > counted:
            count.write(answers)
        self._count = count

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything that was asked and answered."""
        return tuple(self._records)

    @property
    def chain(self) -> str:
        """Hex digest over all records in their order."""
        return self._chain

    def recall(self, question: str) -> IntArray | None:
        """The stored answer to the next question, None when it was never answered.

        Damaged when another question was asked at this place: the model that
        runs now is not the one that was recorded.
        """
        if self._next == len(self._records):
            return None
        record = self._records[self._next]
        if record.question != question:
            raise Damaged(f"transcript: expected {record.question!r} next, got {question!r}")
        self._next += 1
        return record.answer.copy()

    def store(self, question: str, answer: IntArray) -> None:
        """Append one answer; it is on disk, and counted, when this returns."""
        line, chain = _encode(question, answer, self._chain)
        if self._path is not None:
            _append(self._path, line)
        if self._count is not None:
            self._count.write(len(self._records))
        self._records.append(Record(question, answer.copy()))
        self._next, self._chain = len(self._records), chain

    def rewind(self) -> Transcript:
        """The same records, to be replayed from the first, never written to."""
        copy = Transcript()
        copy._records = [one for one in self._records if not one.question.startswith(_HEADER)]
        copy._chain = self._chain
        return copy

    def _load(self, path: Path) -> None:
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        whole = 0
        for number, line in enumerate(lines):
            decoded = _decode(line, self._chain)
            if decoded is None:
                if number < len(lines) - 1 or line.endswith(b"\n"):
                    raise Damaged(
                        f"transcript: expected record {number + 1} whole, got a broken one"
                    )
                break
            record, self._chain = decoded
            self._records.append(record)
            whole += len(line)
        self._next = min(1, len(self._records))
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
                os.fsync(file.fileno())


def _encode(question: str, answer: IntArray, chain: str) -> tuple[bytes, str]:
    packed = base64.b64encode(zlib.compress(answer.astype("<i8").tobytes(), 1)).decode()
    fields = {"question": question, "shape": list(answer.shape), "answer": packed}
    body = json.dumps(fields, sort_keys=True)
    digest = hashlib.sha256((chain + body).encode()).hexdigest()
    return (json.dumps({"record": fields, "chain": digest}, sort_keys=True) + "\n").encode(), digest


def _decode(line: bytes, chain: str) -> tuple[Record, str] | None:
    """The record of one line, None when it is not whole or not the next of this chain."""
    try:
        stored = json.loads(line)
        fields, digest = stored["record"], stored["chain"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    body = json.dumps(fields, sort_keys=True)
    if not line.endswith(b"\n") or hashlib.sha256((chain + body).encode()).hexdigest() != digest:
        return None
    values = np.frombuffer(zlib.decompress(base64.b64decode(fields["answer"])), dtype="<i8")
    answer = values.astype(np.int64).reshape(fields["shape"])
    return Record(fields["question"], answer), digest


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    with os.fdopen(descriptor, "wb") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())

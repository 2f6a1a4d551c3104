"""A transcript: every question and noisy answer of one release, each on disk before it is used.

A model that is run again over its transcript gets the same answers and needs no rows. An answer
that never reached the disk was never returned, so it may be drawn again after a crash. The number
of answers is kept in another folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zlib
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import Damaged, OtherQuestion
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.files import make_private, write_atomically

_DIGITS = re.compile(rb"(\d{20})\n")


class AnswersLost(Damaged):
    """Raised when answers of a charged release are lost or uncertain: it can never be finished."""


class AnswerCount:
    """The number of stored answers of an unfinished release, kept in a second folder.

    A transcript that was cut at the end of a line, by hand or because an older copy was restored,
    is a valid transcript of fewer answers, and the lost ones would be drawn again under one charge.
    So answers are counted, before the model sees them, in a file of 21 bytes that is overwritten:

        answers in the transcript    counted    what happened
        -------------------------    -------    -------------
        7                            7          nothing, or a crash while the eighth was drawn
        7                            6          a crash between both writes: nobody saw the seventh
        5                            7          two answers that were seen are lost
        7                            none        the count is lost: nobody knows how many were seen
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Write the count 0 unless a count exists; a release does so before it is charged."""
        make_private(self.path.parent)
        write_atomically(self.path, _digits(0), overwrite=False)

    def read(self) -> int:
        """Return the number in the file; AnswersLost if it cannot be read."""
        content = self.path.read_bytes() if self.path.is_file() else b""
        match = _DIGITS.fullmatch(content)
        if match is None:
            fault = "is damaged" if self.path.is_file() else "is missing"
            raise AnswersLost(
                f"The file {self.path} must hold the number of answers drawn so far, but it "
                f"{fault}: pay for a new draw with --new-draw"
            )
        return int(match[1])

    def write(self, answers: int) -> None:
        """Write the number of answers; it is on disk when this returns."""
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, _digits(answers), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the count of a release that is settled or can never be finished."""
        self.path.unlink(missing_ok=True)


def _digits(answers: int) -> bytes:
    return b"%020d\n" % answers


_HEADER = "release "


@dataclass(frozen=True)
class AnswerRecord:
    """One question with its noisy answer.

    question   the question as a digest or a text for programs
    words      the question for a person
    scale      exact scale of its discrete Laplace noise, for a refinement of the answer; None: the
               answer is never refined
    """

    question: str
    answer: IntArray
    words: str = ""
    scale: Fraction | None = None


class Transcript:
    """The questions and answers of one release, on disk if ``path`` is given, otherwise in memory.

    Opening a file drops an incomplete last record (a crash while writing it: the line has no end)
    and refuses any other damage: a complete last record may have been seen, so drawing it again
    would be a second answer for one charge. The caller holds the release's lock. ``create`` writes
    the file's header before the charge, so a charged release without it has lost answers.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._count: AnswerCount | None = None
        self._records: list[AnswerRecord] = []
        self._next = 0
        self._chain = ""
        if path is not None and path.exists():
            self._load_and_mend(path)

    @staticmethod
    def create(path: Path, key: str, *, salt: bytes = b"") -> None:
        """Create the file of a release before its charge, unless it exists.

        key    of the release
        salt   secret bytes that the chain begins with, a multiple of 8: without them, a reader of a
               bundle's digest who knows most answers could find the others by trial
        """
        make_private(path.parent)
        header = AnswerRecord(_HEADER + key, np.frombuffer(salt, dtype="<i8"))
        line, _ = _encode(header, "", format=FORMAT)
        write_atomically(path, line, overwrite=False)

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """Return a transcript in memory that replays a file's answers; the file never changes."""
        transcript = cls()
        transcript._load_and_mend(path)
        return transcript.rewind()

    def require_header(self, key: str) -> None:
        """Raise AnswersLost unless the file begins with the header of this release."""
        if not self._records or self._records[0].question != _HEADER + key:
            fault = "begins as that of another release, so it" if self._records else "is empty: it"
            raise AnswersLost(
                f"The transcript of release {key[:12]} {fault} has lost the answers drawn so far: "
                "pay for a new draw with --new-draw"
            )

    def count_answers_in(self, count: AnswerCount) -> None:
        """From now on, count every answer in another file before it is returned.

        AnswersLost unless the transcript has as many answers as were counted, or one more, which a
        crash kept from being counted and seen. That one is counted now.
        """
        answers, counted = len(self._records) - 1, count.read()
        if not counted <= answers <= counted + 1:
            release = self._records[0].question.removeprefix(_HEADER)[:12]
            raise AnswersLost(
                f"The transcript of release {release} must hold the {counted} answers that were "
                f"counted when they were drawn, but it holds {answers}: pay for a new draw with "
                "--new-draw"
            )
        if answers > counted:
            count.write(answers)
        self._count = count

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> tuple[AnswerRecord, ...]:
        return tuple(self._records)

    @property
    def chain(self) -> str:
        """The SHA-256 in hex over all records in their order; empty without records."""
        return self._chain

    def recall(self, question: str, *, words: str = "") -> AnswerRecord | None:
        """Return the stored answer to the next question; None after the last stored answer.

        words   of the question, for the message

        OtherQuestion if another question was answered at this place: the program has changed."""
        if self._next == len(self._records):
            return None
        record = self._records[self._next]
        if record.question != question:
            raise OtherQuestion(
                "the next stored answer of the transcript is to "
                f"{_question_label(record.question, record.words)}, but the model now asks "
                f"{_question_label(question, words)}"
            )
        self._next += 1
        return replace(record, answer=record.answer.copy())

    def store(
        self, question: str, answer: IntArray, *, words: str = "", scale: Fraction | None = None
    ) -> AnswerRecord:
        """Append one answer, on disk if the transcript is there, and count it; return its record.

        words   the question for a person
        scale   as in ``AnswerRecord``
        """
        record = AnswerRecord(question, answer.copy(), words, scale)
        line, chain = _encode(record, self._chain)
        if self._path is not None:
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_APPEND), "wb") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        if self._count is not None:
            self._count.write(len(self._records))
        self._records.append(record)
        self._next, self._chain = len(self._records), chain
        return replace(record, answer=answer)

    def rewind(self) -> Transcript:
        """Return a copy in memory that replays the answers from the first one."""
        copy = Transcript()
        copy._records = [
            record for record in self._records if not record.question.startswith(_HEADER)
        ]
        copy._chain = self._chain
        return copy

    def _load_and_mend(self, path: Path) -> None:
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        fields, digest = _parse(lines[0]) if lines else (None, None)
        # A line that was cut off by a crash states no format, and is no reason to refuse.
        if fields is not None and ("format" in fields or digest == _chained("", fields)):
            require_format(fields.get("format"), of=f"transcript {path.parent.name[:12]}")
        complete_bytes = 0
        for number, line in enumerate(lines, 1):
            decoded = _decode(line, self._chain)
            if decoded is None:
                if number < len(lines) or line.endswith(b"\n"):
                    raise AnswersLost(
                        f"Record {number} of the transcript in {path} must be complete, but it is "
                        "damaged: pay for a new draw with --new-draw"
                    )
                break
            record, self._chain = decoded
            self._records.append(record)
            complete_bytes += len(line)
        self._next = min(1, len(self._records))
        if complete_bytes < len(content) and self._path is not None:
            with path.open("r+b") as file:
                file.truncate(complete_bytes)
                os.fsync(file.fileno())


def _question_label(question: str, words: str) -> str:
    return f"{words!r} ({question[:12]})" if words else repr(question)


def _encode(record: AnswerRecord, chain: str, **header: int) -> tuple[bytes, str]:
    packed = base64.b64encode(zlib.compress(record.answer.astype("<i8").tobytes(), 1)).decode()
    fields = {
        "question": record.question,
        "words": record.words,
        "shape": list(record.answer.shape),
        "answer": packed,
        "scale": None if record.scale is None else str(record.scale),
        **header,
    }
    digest = _chained(chain, fields)
    return (json.dumps({"record": fields, "chain": digest}, sort_keys=True) + "\n").encode(), digest


def _chained(chain: str, fields: dict[str, Any]) -> str:
    body = json.dumps(fields, sort_keys=True)
    return hashlib.sha256((chain + body).encode()).hexdigest()


def _parse(line: bytes) -> tuple[dict[str, Any] | None, object]:
    """Return the fields of a line, None if it is not a record, and its unchecked digest."""
    try:
        stored = json.loads(line)
        fields, digest = stored["record"], stored["chain"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, None
    return (fields if isinstance(fields, dict) else None), digest


def _decode(line: bytes, chain: str) -> tuple[AnswerRecord, str] | None:
    """Return the record of a line and the new digest; None unless it continues the chain."""
    fields, digest = _parse(line)
    if fields is None or not line.endswith(b"\n") or digest != _chained(chain, fields):
        return None
    values = np.frombuffer(zlib.decompress(base64.b64decode(fields["answer"])), dtype="<i8")
    answer = values.astype(np.int64).reshape(fields["shape"])
    scale = None if fields["scale"] is None else Fraction(fields["scale"])
    return AnswerRecord(fields["question"], answer, fields["words"], scale), str(digest)

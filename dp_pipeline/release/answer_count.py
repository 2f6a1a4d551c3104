"""AnswerCount: how many noisy answers of an unfinished release were written, kept elsewhere.

A transcript that was cut at the end of a line, by hand or because an older copy was put back, is
a good transcript of fewer answers: those that it lost would be drawn a second time under one
charge. So their number is kept in another folder than the answers, and is written after each
answer and before the model sees it:

    answers in the transcript    counted    what happened
    -------------------------    -------    -------------
    7                            7          nothing, or a crash while the eighth was drawn
    7                            6          a crash between the two writes: nobody saw the seventh
    5                            7          two answers that were seen are lost
    7                            none        the count is lost: nobody knows how many were seen
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dp_pipeline.release.durable import make_private, write_whole
from dp_pipeline.schema.errors import Damaged

_DIGITS = re.compile(rb"(\d{20})\n")


class AnswersLost(Damaged):
    """Answers of a charged release are lost, or nobody knows how many were seen, or they would be
    of two data sets: it can never be finished. Any other damage can be mended, and kills nothing.
    """


class AnswerCount:
    """The count of one release: a file of 21 bytes, so that it is overwritten in place, whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """Count no answer yet, before the release is charged; a count that is there stays."""
        make_private(self.path.parent)
        write_whole(self.path, lambda file: file.write(_text(0)), over=False)

    def read(self) -> int:
        """How many answers were counted; AnswersLost where that is not known."""
        content = self.path.read_bytes() if self.path.is_file() else b""
        found = _DIGITS.fullmatch(content)
        if found is None:
            raise AnswersLost(
                f"count of answers {self.path}: expected the number of answers drawn so far, "
                "got none: nobody knows how many of them were seen"
            )
        return int(found[1])

    def write(self, answers: int) -> None:
        """Count so many; it is on disk when this returns."""
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, _text(answers), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def end(self) -> None:
        """Forget the count of a release that is settled or dead: its ledger row says the rest."""
        self.path.unlink(missing_ok=True)


def _text(answers: int) -> bytes:
    return b"%020d\n" % answers

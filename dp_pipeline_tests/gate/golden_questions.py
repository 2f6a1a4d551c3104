"""Identities of one question of every kind: ``python -m dp_pipeline_tests.gate.golden_questions``
writes them into ``golden_questions.txt`` anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dp_pipeline.release.transcript import Transcript
from dp_pipeline_tests.gate.questions import ONE, example_questions
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import NOBODY

FILE = Path(__file__).with_name("golden_questions.txt")


def golden_questions() -> Iterator[str]:
    """One line an answer that is stored: what was asked, and its identity."""
    for name, ask in sorted(example_questions().items()):
        transcript = Transcript()
        ask(curator_over(NOBODY, epsilon=ONE, transcript=transcript))
        for record in transcript.records:
            yield f"{name}: {record.question[:32]}"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in golden_questions()), encoding="utf-8")

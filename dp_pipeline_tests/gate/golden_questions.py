"""Write the identities of one question of every kind into ``golden_questions.txt``."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Attribute, Domain, OneRow, Undeclared
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import Accountant
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.gate.questions import ONE, example_questions
from dp_pipeline_tests.instruments import curator_over
from dp_pipeline_tests.populations import NOBODY

FILE = Path(__file__).with_name("golden_questions.txt")


def golden_questions() -> Iterator[str]:
    """One line an answer that is stored: what was asked, and its identity."""
    # The only question beside the others: it adds nothing to what they cost.
    beside = {"rows left out": lambda one: one.measure_left_out()}
    for name, ask in sorted({**example_questions(), **beside}.items()):
        transcript = Transcript()
        ask(curator_over(NOBODY, epsilon=ONE, transcript=transcript))
        for record in transcript.records:
            yield f"{name}: {record.question[:32]}"
    transcript = Transcript()
    _discovered(transcript)
    for record in transcript.records:
        what = record.words.partition(": ")[2].partition(",")[0]
        yield f"discover {what}: {record.question[:32]}"


@dataclass(frozen=True)
class Open:
    """A frame of three columns of which something is to be found."""

    name: str = "frame"
    discover: Discover = Discover(Fraction(60), Fraction(1, 1000))
    protection: OneRow = OneRow()
    to_discover: tuple[str, ...] = ("x", "y", "word")
    columns: tuple[str, ...] = ("x", "y", "word")
    distance: int = 1
    domain: Domain = Domain(
        (
            Attribute("x", "x", "clip", undeclared=Undeclared(bounds=True, unit=0.5)),
            Attribute("y", "y", "clip", Coordinate(0.0, 8.0), undeclared=Undeclared(quantiles=2)),
            Attribute("word", "word", "drop", undeclared=Undeclared(levels=5)),
        )
    )


def _discovered(transcript: Transcript) -> None:
    """Every kind of look that discovers a domain."""
    many = {"x": [1.5] * 400, "y": [0.5, 7.5] * 200, "word": ["a", "b"] * 200}
    open_, rows = Open(), pa.table(many)
    counter, noise = UndeclaredRows.of_table(open_, rows, b"key"), SeededNoise(1)
    accountant = Accountant(Fraction(60), delta=Fraction(1, 1000))
    discover(open_, counter, accountant, transcript, noise)


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in golden_questions()), encoding="utf-8")

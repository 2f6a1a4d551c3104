"""Write the identities of one question of every kind into ``golden_questions.txt``."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Attribute, Domain, Undeclared
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
    beside = {"rows left out": lambda curator: curator.measure_left_out()}
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


def _discovered(transcript: Transcript) -> None:
    """Every kind of look that discovers a domain."""
    attributes = (
        Attribute("x", "x", "clip", undeclared=Undeclared(bounds=True, unit=0.5)),
        Attribute("y", "y", "clip", Coordinate(0.0, 8.0), undeclared=Undeclared(quantiles=2)),
        Attribute("word", "word", "drop", undeclared=Undeclared(levels=5)),
    )
    cost = Discover(epsilon="60", delta="0.001")
    spec = DatasetSpec.of_domain("frame", Domain(attributes), discover=cost)
    many = {"x": [1.5] * 400, "y": [0.5, 7.5] * 200, "word": ["a", "b"] * 200}
    counter, noise = UndeclaredRows.of_table(spec, pa.table(many), b"key"), SeededNoise(1)
    discover(spec, counter, Accountant(Fraction(60), delta=Fraction(1, 1000)), transcript, noise)


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in golden_questions()), encoding="utf-8")

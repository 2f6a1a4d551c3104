"""Files that differ in one odd cell: the same schema and questions, no more loss than is paid."""

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dp_pipeline.config.parser import load_spec
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, ModelFit, guarantee_of
from dp_pipeline.models.clustering.base import Clustering
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import mark_validated
from dp_pipeline.raw.stages import read_stage
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise
from dp_pipeline_tests.models.contract import Run, built, privacy_loss
from dp_pipeline_tests.raw.written import KEY

FILE = """
name: visits
description: Visits.
population: visits
purpose: release
protection: {unit: rows_of_person, column: who, at_most: 3}
ceiling: {total: 9}
source: {kind: csv, path: visits.csv, multiline: 2}
attributes:
  lat: {bounds: [0, 8], bins: 4}
  lon: {bounds: [0, 8], bins: 2}
  age: {bounds: [0, 90], bins: 3}
  colour: {levels: [red, green]}
  smokes: {levels: [no, yes]}
partitions: [1]
models: {htree_kmeans: {k: 2, columns: lat lon}, one_shot: }
"""
ONE = Fraction(1)
LINES = [f"p{i},{i % 8}.5,{i % 3},{7 * i},{('red', 'green')[i % 2]},no".encode() for i in range(12)]
GOOD = b"q,1.5,2.5,40,red,yes"
ODD = {
    "number": b"q,1.5,2.5,4o,red,yes",
    "level": b"q,1.5,2.5,40,mauve,yes",
    "bytes": b"q,1.5,2.5,40,r\xffd,yes",
    "line break": b'q,1.5,2.5,40,"re\nd",yes',
    "no place": b"q,,2.5,40,red,yes",
    "no number as a place": b"q,1.5,north,40,red,yes",
}
MODELS_OF_RELEASES = {
    name: model for name in MODELS if not (model := built(MODELS[name])).needs_public_rows
}


class Prepared:
    """A file of these lines from its bytes to prepared rows on disk."""

    def __init__(self, folder: Path, lines: Sequence[bytes], engine: str = "memory") -> None:
        folder.mkdir()
        (folder / "visits.csv").write_bytes(b"\n".join([b"who,lat,lon,age,colour,smokes", *lines]))
        (folder / "visits.yaml").write_text(FILE)
        self.spec = load_spec(folder / "visits.yaml")
        self.snapshot = ingest(self.spec, folder, key=KEY, snapshot_id="day", today=date.min)
        mark_validated(self.spec, self.snapshot, structural=True, refused=False)
        prepare(self.spec, self.snapshot)
        self.counter = open_counter(self.spec, self.snapshot, engine)

    @property
    def schemas(self) -> list[Any]:
        return [read_stage(self.snapshot, stage).schema for stage in ("normalized", "discretized")]

    def run(self, model: Model, *, seed: int = 4) -> tuple[Run, list[tuple[str, str]]]:
        """One fit with answers that are forced, and its questions."""
        recorder, transcript = RecordingNoise(ForcedNoise(seed)), Transcript()
        guarantee = guarantee_of(model, ONE, domain=self.spec.domain)

        fit, rng = ModelFit(self.spec, model, guarantee), np.random.default_rng(1)
        result = fit.fit_model(self.counter, transcript, recorder, epsilon=ONE, rng=rng)
        questions = [(record.question, record.words) for record in transcript.records]
        return Run(result.released, tuple(recorder.draws), result.spends), questions


def values_of(run: Run) -> dict[str, dict[str, list[Any]]]:
    tables = run.released.tables()
    return {name: {key: table[key].tolist() for key in table} for name, table in tables.items()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    """The file with a good last line, without one, and with an odd one."""
    folder = tmp_path_factory.mktemp("files")
    lines = {"none": [], "good": [GOOD], **{name: [line] for name, line in ODD.items()}}
    return {name: Prepared(folder / name, [*LINES, *lines[name]]) for name in lines}


@pytest.mark.parametrize("name", MODELS_OF_RELEASES)
def test_one_odd_cell_changes_no_question(name: str, files: dict[str, Prepared]):
    model = MODELS_OF_RELEASES[name]
    good, questions = files["good"].run(model)
    for odd in ODD:
        assert files[odd].schemas == files["good"].schemas
        run, others = files[odd].run(model)
        assert others == questions
        assert [(d.mechanism, d.exact.shape, d.scale) for d in run.draws] == [
            (d.mechanism, d.exact.shape, d.scale) for d in good.draws
        ]
        assert run.spends == good.spends
        assert values_of(run) == values_of(good)


@pytest.mark.parametrize("name", MODELS_OF_RELEASES)
def test_a_person_with_odd_cells_loses_what_is_paid(name: str, files: dict[str, Prepared]):
    model = MODELS_OF_RELEASES[name]
    without, _ = files["none"].run(model)
    for odd in ("good", *ODD):
        loss = privacy_loss(files[odd].run(model)[0], without)
        # A row without a place is in no table, and in the number of rows left out by every map.
        is_counted = isinstance(model, Clustering) or "place" not in odd
        assert is_counted * Fraction(1, 10**9) <= loss <= ONE / 3 + Fraction(1, 10**9)


@pytest.mark.parametrize("places", range(6))
@pytest.mark.parametrize("others", [0, 1, 2, 5])
def test_rows_left_out_count_with_those_of_their_person(tmp_path: Path, places: int, others: int):
    """Of a person three rows in all: those with a place first."""
    person = [GOOD] * places + [ODD["no place"]] * others
    lines = [*LINES, *person, b",,1,20,red,no"]
    joined, without = Prepared(tmp_path / "joined", lines), Prepared(tmp_path / "without", LINES)
    model = built(MODELS["htree_kmeans"])
    (run_with, _), (run_without, _) = joined.run(model), without.run(model)
    *_, left_out = run_with.draws
    assert left_out.exact == min(others, 3 - min(places, 3))
    assert left_out.scale == 3
    assert privacy_loss(run_with, run_without) <= ONE
    if places + others >= 3:
        assert privacy_loss(run_with, run_without) == ONE


def test_only_clusterings_count_the_rows_left_out(files: dict[str, Prepared]):
    for name, model in MODELS_OF_RELEASES.items():
        released = files["no place"].run(model)[0].released.tables()
        assert ("left_out" in released) == issubclass(MODELS[name], Clustering)

"""Dask and Spark count what one process counts, whatever becomes of their workers."""

import os
import signal
import sys
import time
from datetime import date
from fractions import Fraction
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from dp_pipeline.config.catalogue import find_spec
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import ModelFit, guarantee_of
from dp_pipeline.raw import clusters
from dp_pipeline.raw.counters import open_counter
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery
from dp_pipeline.raw.counters.fold import FoldCounter, answer_batch
from dp_pipeline.raw.counters.stream import StoredRows, fold_of
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.stages import store_parts
from dp_pipeline.raw.validate import validate
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.instruments import exact_tables
from dp_pipeline_tests.raw.conftest import require_engine
from dp_pipeline_tests.raw.population import POPULATIONS, Population
from dp_pipeline_tests.raw.questions import ASKED, memory, write_stages

pytestmark = pytest.mark.chain

MODELS_TRIED = ("one_shot", "privhd", "independent", "htree_kmeans", "dplloyd")


def released(counter: FoldCounter, name: str) -> tuple[str, str]:
    """The chain of answers and the tables of a seeded release."""
    transcript = Transcript()
    model, epsilon, rng = MODELS[name](), Fraction(1, 2), np.random.default_rng(0)
    spec = DatasetSpec.of_domain("rows", counter.domain, purpose="release")
    fit = ModelFit(spec, model, guarantee_of(model, epsilon))
    fitted = fit.fit_model(counter, transcript, SeededNoise(7), epsilon=epsilon, rng=rng)
    tables = {
        table: {name: column.tolist() for name, column in columns.items()}
        for table, columns in fitted.released.tables().items()
    }
    return transcript.chain, repr(tables)


@pytest.mark.parametrize("name", MODELS_TRIED)
def test_a_release_is_the_same_on_every_engine(engine, census, name):
    spec, snapshot = census
    first = released(open_counter(spec, snapshot, "memory"), name)
    for other in ("stream", engine):
        assert released(open_counter(spec, snapshot, other), name) == first


def stored(population: Population, folder: Path, rows: int) -> StoredRows:
    """A population on disk, so many rows in a row group."""
    return StoredRows.of(population.domain, write_stages(population, folder, rows))


def test_no_rows_are_rows_like_any_other(engine, tmp_path):
    population = POPULATIONS["few rows"].at([])
    counter = FoldCounter(population.domain, fold_of(stored(population, tmp_path, 13), engine))
    actual = exact_tables(counter, [("c",), ()])
    expected = exact_tables(memory(population), [("c",), ()])
    assert all(np.array_equal(a, b) for a, b in zip(actual, expected, strict=True))


@pytest.fixture(scope="module")
def census(tmp_path_factory):
    """Prepared in row groups of 5,000 rows."""
    spec, folder = find_spec("census"), tmp_path_factory.mktemp("census")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(store_parts.__kwdefaults__, "rows", 5000)
        day = date(2026, 1, 1)
        snapshot = ingest(spec, folder, key=b"k" * 32, snapshot_id=None, today=day)
        validate(spec, snapshot)
        prepare(spec, snapshot)
        yield spec, snapshot


PAIRS = BatchQuery("count", ((("c",), ("x", "d")),), cells=frozenset({"c", "x", "d"}))


class Slow(StoredRows):
    """Each of its batches takes long enough to be killed in."""

    def answer_batches(self, query: BatchQuery, indices) -> Answer | None:
        time.sleep(0.3)
        return super().answer_batches(query, indices)


def killed_later(number: int, seconds: float) -> Thread:
    killer = Thread(target=lambda: (time.sleep(seconds), os.kill(number, signal.SIGKILL)))
    killer.start()
    return killer


def test_a_worker_of_dask_that_is_killed_changes_no_answer(tmp_path):
    require_engine("dask")
    rows = stored(POPULATIONS["few rows"], tmp_path, 1)
    client = clusters.dask_client("")
    fold = fold_of(rows, "dask")
    expected = fold_of(rows, "stream")(PAIRS)
    killer = killed_later(next(iter(client.run(os.getpid).values())), 0.05)
    answers = [fold(PAIRS) for _ in range(8)]
    killer.join()
    assert all(same(answer, expected) for answer in answers)
    client.wait_for_workers(os.cpu_count() or 1, timeout=300)
    slow = fold_of(Slow(**vars(rows)), "dask")
    # Each of them in turn: whichever holds the queries, it is among those.
    for address, number in client.run(os.getpid).items():
        killer = killed_later(number, 0.4)
        actual = slow(PAIRS)
        killer.join()
        assert same(actual, expected), address


def same(answer: Answer | None, other: Answer | None) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(answer or (), other or (), strict=True))


class DiesOnce(StoredRows):
    """Its worker kills itself at the first batch that it is asked about."""

    def answer_batches(self, query: BatchQuery, indices) -> Answer | None:
        mark = self.pairs[0][0].with_suffix(".died")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answer_batches(query, indices)


KINDS = {name for name in vars(Batch) if name[0] != "_"} - {"answer", "recoded"}

MAX_CELLS = 1 << 12
"""Of an answer that workers are asked for: larger ones say the same and only take longer."""


def every_question(population: Population) -> list[BatchQuery]:
    """What the whole contract asks an engine, and what only disclosing ones answer."""
    queries: list[BatchQuery] = []
    sizes = {name: population.domain[name].size for name in population.domain.discrete}
    columns = {"coordinates": population.coordinates, "codes": population.codes, "sizes": sizes}
    batch = Batch(**columns, rows=population.rows)

    def fold(query: BatchQuery) -> Answer | None:
        answer = answer_batch(batch, query)
        if sum(table.size for table in answer or ()) <= MAX_CELLS:
            queries.append(query)
        return answer

    counter = FoldCounter(population.domain, fold)
    for ask in ASKED.values():
        list(ask(counter))
    counter.occupied(("huge", "x", "d"))
    counter.bounds(("z", "x"))
    counter.records(("x", "w"), 7, 3)
    return queries


@pytest.mark.parametrize("rows", [7, 39, 40])
def test_answers_survive_cuts_and_dying_workers(engine, tmp_path, rows):
    population = POPULATIONS["few rows"]
    questions = every_question(population)
    assert {question.kind for question in questions} == KINDS
    assert any(question.recodings for question in questions)
    cut = stored(population, tmp_path, rows)
    assert len(cut.groups) == -(-40 // rows)
    dying = DiesOnce(**vars(cut))
    (tmp_path / "together").mkdir()
    together = fold_of(stored(population, tmp_path / "together", population.rows), "stream")
    threads, fold = fold_of(cut, "stream"), fold_of(dying, engine)
    assert all(same(threads(question), together(question)) for question in questions)
    # One of each kind and number of recodings: an engine does not look into a question.
    for question in {(each.kind, len(each.recodings)): each for each in questions}.values():
        assert same(fold(question), together(question))
    assert dying.pairs[0][0].with_suffix(".died").exists()


def test_a_failed_worker_is_one_line_without_its_message(engine, tmp_path):
    rows = stored(POPULATIONS["few rows"], tmp_path, 13)
    fold = fold_of(rows, engine)
    rows.pairs[0][0].unlink()
    question = BatchQuery("grid", (("x",), 3), axes=frozenset({"x"}))
    with pytest.raises(PipelineError) as caught:
        fold(question)
    assert "\n" not in str(caught.value)
    advice = "read their logs, and check that all of them can read and"
    assert isinstance(caught.value, Damaged) or advice in str(caught.value)


def test_a_missing_engine_says_how_to_install_it(monkeypatch):
    for name, module in (("dask", "distributed"), ("spark", "pyspark.sql")):
        monkeypatch.setitem(sys.modules, module, None)
        clusters.dask_client.cache_clear()
        clusters.spark_session.cache_clear()
        with pytest.raises(DeclarationError, match=rf"pip install 'dp-pipeline\[{name}\]'"):
            clusters.workers_of(name)

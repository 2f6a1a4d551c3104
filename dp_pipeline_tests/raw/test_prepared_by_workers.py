"""Who prepares rows and bounds persons changes no byte: one process, or workers that see a task."""

import os
import pickle
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError
from dp_pipeline.raw import prepare
from dp_pipeline.raw.clusters import RedactErrors, workers_of
from dp_pipeline.raw.contributions import Groups, PersonKeys
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline.raw.stages import BatchReader, stage_batches, store_parts
from dp_pipeline.raw.validate import validate
from dp_pipeline.raw.workers import ParallelMap, map_to_tables, write_tables
from dp_pipeline_tests.raw.conftest import require_engine
from dp_pipeline_tests.raw.written import KEY, ingested, written_spec

ROWS = 60
PERSONS = "{unit: rows_of_person, column: rider, at_most: 2}"
ATTRIBUTES = "{x: {bounds: [0, 10], bins: 4}, sex: {levels: [f, m]}}"
IDS: dict[str, pa.Array] = {
    "texts": pa.array([f" {i % 11} " if i % 2 else str(i % 11) for i in range(ROWS)]),
    "texts and nobody's": pa.array([None if i % 5 else "  " for i in range(30)] + ["ü"] * 30),
    "whole numbers": pa.array([2**62 + i % 9 for i in range(ROWS)], pa.int64()),
    "whole numbers and nobody's": pa.array([i % 9 or None for i in range(ROWS)], pa.uint64()),
    "a dictionary": pa.array([str(i % 7) for i in range(ROWS)]).dictionary_encode(),
    "nobody's": pa.nulls(ROWS, pa.string()),
}


def persons(tmp_path: Path) -> DatasetSpec:
    return written_spec(tmp_path, ATTRIBUTES, protection=PERSONS, more="one_hot: true")


def validated(spec: DatasetSpec, folder: Path, ids: pa.Array) -> Snapshot:
    xs, sexes = [str(i % 13) for i in range(ROWS)], ["f" if i % 3 else "m" for i in range(ROWS)]
    table = pa.table({"x": xs, "sex": sexes, "rider": ids})
    folder.mkdir()
    snapshot = ingested(folder, table)
    store_parts(snapshot, "ingested", [table])
    mark_validated(spec, snapshot, structural=True, refused=False)
    return snapshot


def prepared(spec: DatasetSpec, folder: Path, ids: pa.Array, engine: str = "") -> dict[str, bytes]:
    """What is stored of every stage."""
    snapshot = validated(spec, folder, ids)
    prepare.prepare(spec, snapshot, engine)
    assert not list(snapshot.folder.glob(".*")), "what workers left is gone"
    return {stage: snapshot.table_path(stage).read_bytes() for stage in prepare.stages_of(spec)}


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_every_engine_prepares_the_same_bytes(engine, tmp_path):
    spec = persons(tmp_path)
    rows = written_spec(tmp_path, ATTRIBUTES, more="one_hot: true")
    # A round of Spark's takes seconds.
    for name, ids in list(IDS.items())[:: 3 if engine == "spark" else 1]:
        here = prepared(spec, tmp_path / f"{name} memory", ids, "memory")
        assert prepared(spec, tmp_path / f"{name} stream", ids, "stream") == here
        assert prepared(spec, tmp_path / f"{name} there", ids, engine) == here
    there = prepared(rows, tmp_path / "rows there", IDS["texts"], engine)
    assert there == prepared(rows, tmp_path / "rows here", IDS["texts"]), "of no persons"


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_every_engine_finds_the_same_of_every_expectation(engine, tmp_path):
    spec = persons(tmp_path)
    ids = IDS["texts and nobody's"]
    snapshot = validated(spec, tmp_path / "rows", ids)
    verdicts = validate(spec, snapshot)
    assert {verdict.passed for verdict in verdicts} == {True, False}
    assert validate(spec, snapshot, engine) == verdicts


class DiesWhenDone(prepare._Normalizer):
    """Its worker does its first batch, and its first part, and dies before it says so."""

    def split_batch(self, numbered_batch: tuple[int, BatchReader]) -> Groups:
        return self._and_die("split", super().split_batch(numbered_batch))

    def normalize_group(self, task: tuple[int, Any]) -> list[pa.Table]:
        return self._and_die("part", super().normalize_group(task))

    def _and_die(self, what: str, done: Any) -> Any:
        mark = self.scratch.parent.parent / f"{what}.died"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_workers_that_are_killed_in_the_middle_change_no_byte(engine, tmp_path, monkeypatch):
    spec, ids = persons(tmp_path), IDS["texts"]
    here = prepared(spec, tmp_path / "here", ids)
    monkeypatch.setattr(prepare, "_Normalizer", DiesWhenDone)
    assert prepared(spec, tmp_path / "there", ids, engine) == here
    died = sorted(path.name for path in tmp_path.rglob("*.died"))
    assert died == ["part.died", "split.died"]


def twice(work: Callable[[Any], Any], tasks: Sequence[Any], /) -> Iterator[Any]:
    """Workers that begin with the last task, and do every task twice at once."""
    backwards = list(reversed([*tasks, *tasks]))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, backwards))
    yield from reversed(results[len(tasks) :])


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", IDS)
def test_repeated_tasks_change_no_byte(tmp_path, monkeypatch, name):
    spec = persons(tmp_path)
    here = prepared(spec, tmp_path / "here", IDS[name])
    monkeypatch.setattr(prepare, "workers_of", lambda _: twice)
    assert prepared(spec, tmp_path / "there", IDS[name]) == here


@pytest.mark.usefixtures("small_batches")
def test_the_populations_key_is_in_nothing_that_workers_get(tmp_path, monkeypatch):
    sent: list[bytes] = []

    def sending(work, tasks, /):
        sent.append(pickle.dumps((work, tasks)))
        yield from map(work, tasks)

    monkeypatch.setattr(prepare, "workers_of", lambda _: sending)
    spec = persons(tmp_path)
    prepared(spec, tmp_path / "there", IDS["texts"])
    keys = PersonKeys.of(spec.columns, spec.protection.column, KEY)
    assert [keys.ids.rows in message for message in sent] == [True, True, False, False]
    assert not any(KEY in message for message in sent)
    assert repr(keys.ids.rows)[2:-1] not in repr(keys)


def fails(task: int) -> int:
    if task == 3:
        raise ValueError("Waltraud")
    return task


def test_an_error_of_a_worker_is_its_kind_only():
    with pytest.raises(PipelineError, match="failed with ValueError: read their logs") as caught:
        RedactErrors(fails)(3)
    assert "Waltraud" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.chain
def test_what_fails_on_a_worker_names_no_value(engine, capfd):
    each = workers_of(engine)
    assert list(each(fails, [2, 1, 2])) == [2, 1, 2]
    assert list(each(fails, [])) == []
    with pytest.raises(PipelineError) as caught:
        list(each(fails, [1, 2, 3]))
    assert "Waltraud" not in "".join((str(caught.value), *capfd.readouterr()))
    assert "\n" not in str(caught.value)


def test_engine_names_are_checked():
    assert workers_of("stream") is workers_of("memory") is workers_of("")
    for text in ("sparks", "memory:here", "stream:1"):
        with pytest.raises(DeclarationError, match="The engine must be one of memory, stream"):
            workers_of(text)


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:{port}", "nonsense", "tcp://h:x", "sc://127.0.0.1:{port}/;token=t0k"],
)
def test_silent_server_is_one_line_without_secret(address):
    name = "spark" if address.startswith("sc") else "dask"
    require_engine(name)
    with socket.socket() as taken:
        # Nobody listens, and nobody else can.
        taken.bind(("127.0.0.1", 0))
        engine = f"{name}:{address.format(port=taken.getsockname()[1])}"
        with pytest.raises(PipelineError, match="the variable DP_PIPELINE_ENGINE") as caught:
            workers_of(engine)
    assert "t0k" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("threads", ["threads", "twice"])
def test_results_come_in_the_order_of_tasks(tmp_path, threads):
    def make(task):
        tables = [pa.table({"x": [task, index]}) for index in range(task)]
        return tables or [pa.table({"x": [0]})[:0]]

    each: ParallelMap = twice if threads == "twice" else workers_of("")
    actual = pa.concat_tables(map_to_tables(each, make, [2, 0, 1], tmp_path))
    assert actual["x"].to_pylist() == [2, 0, 2, 1, 1, 0]
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_whole_has_no_name(tmp_path):
    def tables():
        yield pa.table({"x": [1]})
        raise RuntimeError

    path = tmp_path / "made 0.arrow"
    with pytest.raises(RuntimeError):
        write_tables(path, tables())
    assert not path.exists()


@pytest.mark.usefixtures("small_batches")
def test_file_replaced_while_read_is_damaged(tmp_path):
    spec = persons(tmp_path)
    snapshot = validated(spec, tmp_path / "rows", IDS["texts"])
    path = snapshot.table_path("ingested")
    fault = "the table 'ingested' is not as it was stored: restore it, or"
    with pytest.raises(Damaged, match=fault), stage_batches(snapshot, "ingested") as batches:
        batches[0]()
        path.write_bytes(path.read_bytes())

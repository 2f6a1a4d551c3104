"""Rows of several batches: read, checked, prepared and bounded part by part, and by workers."""

import gzip
import os
import pickle
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import Damaged, DeclarationError, PipelineError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw import prepare
from dp_pipeline.raw.clusters import RedactErrors, workers_of
from dp_pipeline.raw.contributions import (
    GROUP_COUNT,
    PersonKeys,
    assign_groups,
    group_readers,
    split_by_person,
)
from dp_pipeline.raw.counters import MAX_BYTES_IN_MEMORY, open_counter
from dp_pipeline.raw.counters.fold import FoldCounter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.snapshot import Snapshot, mark_validated, stages_of
from dp_pipeline.raw.sources import csv_files, source_tables
from dp_pipeline.raw.stages import (
    LEFT_OUT,
    in_batches,
    read_stage,
    stage_batches,
    store_parts,
)
from dp_pipeline.raw.validate import validate
from dp_pipeline.raw.workers import ParallelMap, map_to_tables, write_tables
from dp_pipeline_tests.raw.conftest import require_engine
from dp_pipeline_tests.raw.test_contributions import keep
from dp_pipeline_tests.raw.written import KEY, PERSONS, X_AND_SEX, ingested, spec_of, written_spec

KEYS = PersonKeys.of(["x", "who"], "who", KEY)
ROWS = 60
RIDERS: dict[str, pa.Array] = {
    "texts": pa.array([f" {i % 11} " if i % 2 else str(i % 11) for i in range(ROWS)]),
    "texts and nobody's": pa.array([None if i % 5 else "  " for i in range(30)] + ["ü"] * 30),
    "whole numbers": pa.array([2**62 + i % 9 for i in range(ROWS)], pa.int64()),
    "whole numbers and nobody's": pa.array([i % 9 or None for i in range(ROWS)], pa.uint64()),
    "texts and gaps": pa.array([f" {i % 11}"[i % 2 :] if i % 17 else None for i in range(ROWS)]),
    "a dictionary": pa.array([str(i % 7) for i in range(ROWS)]).dictionary_encode(),
    "nobody's": pa.nulls(ROWS, pa.string()),
}


def persons(tmp_path: Path) -> DatasetSpec:
    return written_spec(tmp_path, X_AND_SEX, protection=PERSONS, more="one_hot: true")


def validated(spec: DatasetSpec, folder: Path, ids: pa.Array) -> Snapshot:
    xs, sexes = [str(i % 13) for i in range(ROWS)], ["f" if i % 3 else "m" for i in range(ROWS)]
    table = pa.table({"x": xs, "sex": sexes, "rider": ids})
    folder.mkdir()
    snapshot = ingested(folder, table)
    store_parts(snapshot, "ingested", [table])
    mark_validated(spec, snapshot, structural=True, refused=False)
    return snapshot


def prepared(spec: DatasetSpec, folder: Path, ids: pa.Array, engine: str = "") -> dict[str, bytes]:
    snapshot = validated(spec, folder, ids)
    prepare.prepare(spec, snapshot, engine)
    assert not list(snapshot.folder.glob(".*")), "what workers left is gone"
    return {stage: snapshot.table_path(stage).read_bytes() for stage in stages_of(spec)}


def prepared_snapshot(spec: DatasetSpec, folder: Path) -> Snapshot:
    snapshot = validated(spec, folder, RIDERS["texts and gaps"])
    prepare.prepare(spec, snapshot)
    return snapshot


def rows_of(snapshot: Snapshot, stage: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in read_stage(snapshot, stage).to_pylist())


IDS = st.lists(st.sampled_from(["a", " a", "b ", "", None, "ä", "10", "1"]), max_size=40)


@given(IDS, st.lists(st.integers(0, 40), max_size=4), st.integers(1, 3), st.booleans())
@settings(max_examples=40)
def test_batch_boundaries_do_not_change_the_rows_kept(tmp_path_factory, ids, cuts, most, is_text):
    values = ids if is_text else [None if each is None else len(each) for each in ids]
    kind = pa.string() if is_text else pa.int64()
    table = pa.table({"x": pa.array(range(len(ids)), pa.int64()), "who": pa.array(values, kind)})
    ends = [0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)]
    folder, files = tmp_path_factory.mktemp("persons"), []
    for start, end in pairwise(ends):
        path = folder / f"{len(files)}.arrow"
        files.append(split_by_person(table.slice(start, end - start), KEYS, path))
    kept_rows = [
        keep(read(), column="who", at_most=most, key=KEY)["x"].to_pylist()
        for read in group_readers(files)
    ]
    expected = keep(table, column="who", at_most=most, key=KEY)["x"].to_pylist()
    assert sorted(chain.from_iterable(kept_rows)) == expected


@pytest.mark.parametrize("protection", ["{unit: one_row}", PERSONS])
def test_batches_prepare_the_rows_that_one_table_does(tmp_path, protection, request):
    spec = written_spec(tmp_path, X_AND_SEX, protection=protection)
    whole = prepared_snapshot(spec, tmp_path / "whole")
    request.getfixturevalue("small_batches")
    parts = prepared_snapshot(spec, tmp_path / "parts")
    for stage in (*stages_of(spec), LEFT_OUT):
        assert rows_of(parts, stage) == rows_of(whole, stage)
    files = [pq.read_metadata(parts.table_path(stage)) for stage in ("normalized", "discretized")]
    groups = [[each.row_group(i).num_rows for i in range(each.num_row_groups)] for each in files]
    assert groups[0] == groups[1]
    assert set(groups[0][:-1]) == {7}
    assert not list(parts.folder.glob(".*"))


def test_persons_spread_over_all_parts_and_gaps_over_none():
    table = pa.table({"who": [str(index) for index in range(10_000)] + [None, "", "  "]})
    parts = assign_groups(table, KEYS)
    assert parts[-3:].tolist() == [-1, -1, -1]
    assert len(np.unique(parts[:-3])) == GROUP_COUNT
    other = assign_groups(table, PersonKeys.of(["x", "who"], "who", b"another"))
    assert (parts[:-3] != other[:-3]).mean() > 0.9


@pytest.mark.chain
@pytest.mark.parametrize("share", ["0.5", "0.51", "0.8"])
@pytest.mark.usefixtures("small_batches")
def test_checks_of_batches_are_those_of_all_rows_together(tmp_path, share):
    # 7 of 14 values that are there lie below 5, in the first batch alone; one batch has none.
    rows = {"x": ["1"] * 7 + ["9"] * 7 + [""] * 7, "sex": ["f"] * 20 + ["?"]}
    attributes = "{x: {bounds: [0, 10]}, sex: {levels: [f, m]}}"
    line = f"expect_column_values_to_be_between, column: x, max_value: 5, mostly: {share}"
    spec = written_spec(tmp_path, attributes, more=f"expectations: [{{type: {line}}}]")
    table = pa.table(rows)
    cut, together = ingested(tmp_path, table, "cut"), ingested(tmp_path, table, "together")
    store_parts(cut, "ingested", [table])
    store_parts(together, "ingested", [table], rows=1000)
    with stage_batches(cut, "ingested") as batches:
        assert len(batches) == 3
    verdicts = validate(spec, cut)
    assert verdicts == validate(spec, together)
    failed = {verdict.expectation.name for verdict in verdicts if not verdict.passed}
    assert ("expect_column_values_to_be_between__x" in failed) == (share != "0.5")
    assert "levels__sex" in failed


LINES = [b"a,b", b"1,2", b"", b"\xef\xbb\xbf3,4", b'"5,","6"', b"7", b"8,9,10", b'"11,12', b"# no"]


@given(
    lines=st.lists(st.sampled_from([*LINES, b'13,"1"4']), max_size=30),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=1, max_size=3),
    part=st.integers(1, 40),
    comment=st.booleans(),
)
@settings(max_examples=80)
def test_ways_of_reading_lines_agree(tmp_path_factory, lines, ends, part, comment):
    text = b"a,b\n" + b"".join(each + ends[index % len(ends)] for index, each in enumerate(lines))
    path = tmp_path_factory.mktemp("lines") / "rows.csv"
    path.write_bytes(text)
    source = Source("csv", str(path), comment="#" if comment else "")
    spec = spec_of(source, "a", "b", purpose="release")

    def read(size):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_files, "BYTES_A_PART", size)
            return pa.concat_tables(source_tables(spec)).to_pylist()

    assert read(part) == read(1 << 20)


def test_a_file_that_ends_too_early_leaves_no_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BYTES_A_PART", 1000)
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 5000)
    packed = gzip.compress(b"x\n" + "\n".join(map(str, numbers)).encode())
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(packed[:-5000])
    spec = spec_of(Source("csv", str(path)), "x", purpose="release")
    with pytest.raises(SourceError, match="a damaged file: write it again"):
        ingest(spec, tmp_path / "raw", key=KEY, snapshot_id=None, today=date(2026, 1, 1))
    assert [path.name for path in (tmp_path / "raw" / "city").iterdir()] == [".lock"]


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), rows=st.integers(1, 7))
def test_batches_have_all_rows_in_order_and_one_size(sizes, rows):
    ends = np.cumsum([0, *sizes])
    tables = [pa.table({"x": np.arange(a, b)}) for a, b in pairwise(ends)]
    actual = list(in_batches(tables, rows))
    assert pa.concat_tables(actual)["x"].to_pylist() == list(range(ends[-1]))
    assert {each.num_rows for each in actual[:-1]} <= {rows}
    assert 0 < actual[-1].num_rows <= rows or (len(actual), ends[-1]) == (1, 0)


@pytest.mark.usefixtures("small_batches")
def test_an_engine_is_chosen_by_the_size_of_the_rows_or_by_name(tmp_path, monkeypatch):
    spec = written_spec(tmp_path, X_AND_SEX)
    snapshot = prepared_snapshot(spec, tmp_path / "rows")
    assert MAX_BYTES_IN_MEMORY > 10**8
    assert isinstance(open_counter(spec, snapshot), MemoryCounter)
    assert isinstance(open_counter(spec, snapshot, "stream"), FoldCounter)
    # 4 bytes of coordinate and a byte for each of two codes, of 60 rows but for those dropped.
    rows = read_stage(snapshot, "normalized").num_rows
    for most, kind in ((6 * rows, MemoryCounter), (6 * rows - 1, FoldCounter)):
        monkeypatch.setattr("dp_pipeline.raw.counters.MAX_BYTES_IN_MEMORY", most)
        counter = open_counter(spec, snapshot)
        assert isinstance(counter, kind)
        assert counter.fingerprint == open_counter(spec, snapshot, "memory").fingerprint
    with pytest.raises(DeclarationError, match="The engine must be one of memory, stream"):
        open_counter(spec, snapshot, "sparks")


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_every_engine_prepares_the_same_bytes(engine, tmp_path):
    spec = persons(tmp_path)
    rows = written_spec(tmp_path, X_AND_SEX, more="one_hot: true")
    # A round of Spark's takes seconds.
    for name, ids in list(RIDERS.items())[:: 3 if engine == "spark" else 1]:
        here = prepared(spec, tmp_path / f"{name} memory", ids, "memory")
        assert prepared(spec, tmp_path / f"{name} stream", ids, "stream") == here
        assert prepared(spec, tmp_path / f"{name} there", ids, engine) == here
    there = prepared(rows, tmp_path / "rows there", RIDERS["texts"], engine)
    assert there == prepared(rows, tmp_path / "rows here", RIDERS["texts"]), "of no persons"


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_every_engine_finds_the_same_of_every_expectation(engine, tmp_path):
    spec = persons(tmp_path)
    ids = RIDERS["texts and nobody's"]
    snapshot = validated(spec, tmp_path / "rows", ids)
    verdicts = validate(spec, snapshot)
    assert {verdict.passed for verdict in verdicts} == {True, False}
    assert validate(spec, snapshot, engine) == verdicts


@dataclass(frozen=True)
class DiesWhenDone:
    """Work whose worker does its first task, and dies before it says so."""

    work: Callable[[Any], Any]
    mark: Path

    def __call__(self, task: Any) -> Any:
        done = self.work(task)
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return done


@pytest.mark.chain
@pytest.mark.usefixtures("small_batches")
def test_workers_that_are_killed_in_the_middle_change_no_byte(engine, tmp_path, monkeypatch):
    spec, ids = persons(tmp_path), RIDERS["texts"]
    here = prepared(spec, tmp_path / "here", ids)
    marks: list[Path] = []

    def dying(name: str) -> ParallelMap:
        def parallel_map(work, tasks, /):
            marks.append(tmp_path / f"{len(marks)}.died")
            return workers_of(name)(DiesWhenDone(work, marks[-1]), tasks)

        return parallel_map

    monkeypatch.setattr(prepare, "workers_of", dying)
    assert prepared(spec, tmp_path / "there", ids, engine) == here
    # Rows are split, normalized, discretized and made bits.
    assert [mark.exists() for mark in marks] == [True] * 4


def twice(work: Callable[[Any], Any], tasks: Sequence[Any], /) -> Iterator[Any]:
    """Workers that begin with the last task, and do every task twice at once."""
    backwards = list(reversed([*tasks, *tasks]))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, backwards))
    yield from reversed(results[len(tasks) :])


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", RIDERS)
def test_repeated_tasks_change_no_byte(tmp_path, monkeypatch, name):
    spec = persons(tmp_path)
    here = prepared(spec, tmp_path / "here", RIDERS[name])
    monkeypatch.setattr(prepare, "workers_of", lambda _: twice)
    assert prepared(spec, tmp_path / "there", RIDERS[name]) == here


@pytest.mark.usefixtures("small_batches")
def test_the_populations_key_is_in_nothing_that_workers_get(tmp_path, monkeypatch):
    sent: list[bytes] = []

    def sending(work, tasks, /):
        sent.append(pickle.dumps((work, tasks)))
        yield from map(work, tasks)

    monkeypatch.setattr(prepare, "workers_of", lambda _: sending)
    spec = persons(tmp_path)
    prepared(spec, tmp_path / "there", RIDERS["texts"])
    keys = PersonKeys.of(spec.columns, spec.protection.column, KEY)
    assert [keys.ids in message for message in sent] == [True, True, False, False]
    assert not any(KEY in message for message in sent)
    assert repr(keys.ids)[2:-1] not in repr(keys)


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
    snapshot = validated(spec, tmp_path / "rows", RIDERS["texts"])
    path = snapshot.table_path("ingested")
    fault = "the table 'ingested' is not as it was stored: restore it, or"
    with pytest.raises(Damaged, match=fault), stage_batches(snapshot, "ingested") as batches:
        batches[0]()
        path.write_bytes(path.read_bytes())

"""Rows that are more than a batch: read, checked, prepared, bounded and counted part by part."""

import gzip
from collections import Counter
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
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Source
from dp_pipeline.raw.contributions import (
    GROUP_COUNT,
    PersonKeys,
    assign_groups,
    read_group,
    split_by_person,
)
from dp_pipeline.raw.counters import MAX_BYTES_IN_MEMORY, open_counter
from dp_pipeline.raw.counters.fold import FoldCounter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare, stages_of
from dp_pipeline.raw.snapshot import Snapshot, mark_validated
from dp_pipeline.raw.sources import csv_files, source_tables
from dp_pipeline.raw.stages import LEFT_OUT, in_batches, read_stage, stage_batches, store_parts
from dp_pipeline.raw.validate import validate
from dp_pipeline_tests.raw.test_contributions import keep
from dp_pipeline_tests.raw.written import KEY, ingested, spec_of, written_spec

KEYS = PersonKeys.of(["x", "who"], "who", KEY)
PERSONS = "{unit: rows_of_person, column: rider, at_most: 2}"
ATTRIBUTES = "{x: {bounds: [0, 10], bins: 4}, sex: {levels: [f, m]}}"
ROWS = {
    "x": [str(i % 13) for i in range(60)],
    "sex": ["f" if i % 3 else "m" for i in range(60)],
    "rider": [(f" {i % 11} " if i % 2 else str(i % 11)) if i % 17 else None for i in range(60)],
}


def prepared(spec: DatasetSpec, folder: Path) -> Snapshot:
    folder.mkdir()
    snapshot = ingested(folder, ROWS)
    store_parts(snapshot, "ingested", [read_stage(snapshot, "ingested")])
    mark_validated(spec, snapshot, structural=True, refused=False)
    prepare(spec, snapshot)
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
        files.append((path, split_by_person(table.slice(start, end - start), KEYS, path)))
    groups = sorted(set().union(*(groups for _, groups in files)))
    kept_rows = [
        keep(read_group(files, group), column="who", at_most=most, key=KEY)["x"].to_pylist()
        for group in groups
    ]
    expected = keep(table, column="who", at_most=most, key=KEY)["x"].to_pylist()
    assert sorted(chain.from_iterable(kept_rows)) == expected


@pytest.mark.parametrize("protection", ["{unit: one_row}", PERSONS])
def test_batches_prepare_the_rows_that_one_table_does(tmp_path, protection, request):
    spec = written_spec(tmp_path, ATTRIBUTES, protection=protection)
    whole = prepared(spec, tmp_path / "whole")
    request.getfixturevalue("small_batches")
    parts = prepared(spec, tmp_path / "parts")
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
    spec = written_spec(tmp_path, ATTRIBUTES)
    snapshot = prepared(spec, tmp_path / "rows")
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

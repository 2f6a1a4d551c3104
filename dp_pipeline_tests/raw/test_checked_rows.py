"""No answer is given of a file that is not the one that was stored, by any engine."""

from unittest.mock import MagicMock

import pyarrow.parquet as pq
import pytest

from dp_pipeline.config.errors import Damaged, PipelineError
from dp_pipeline.raw import clusters
from dp_pipeline.raw.counters import MAX_BYTES_IN_MEMORY, open_counter, stream
from dp_pipeline.raw.counters.batch import BatchQuery
from dp_pipeline.raw.counters.checked import CheckedRows
from dp_pipeline.raw.counters.fold import EmptyCounter, FoldCounter
from dp_pipeline.raw.counters.stream import fold_of
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline_tests.raw.written import X_AND_SEX, prepared_snapshot, written_spec

ROWS = {"x": [str(index % 11) for index in range(30)], "sex": ["f", "m", "m"] * 10}
OF_CODES = BatchQuery("count", ((("sex",),),), cells=frozenset({"sex"}))


@pytest.fixture
def spec(tmp_path):
    return written_spec(tmp_path, X_AND_SEX)


@pytest.fixture
def snapshot(spec, tmp_path):
    return prepared_snapshot(spec, tmp_path, ROWS)


def damage(snapshot: Snapshot, stage: str) -> bytes:
    """Change one byte of the first column, so that the table can still be opened; what it was."""
    path = snapshot.table_path(stage)
    content = path.read_bytes()
    path.write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])
    return content


def count_codes(counter):
    counter.count([("sex", "x")])


def count_coordinates(counter):
    counter.grid(("x",), 3)


CHANGED = "The files of prepared rows changed while they were counted"
OTHER_TABLE = r"Snapshot\(people/day\): the table 'discretized' is not as it"
QUERIES = {
    "discretized": [count_codes, lambda counter: counter.count([()])],
    "normalized": [count_coordinates],
}


@pytest.mark.parametrize("stage", QUERIES)
def test_a_file_is_checked_when_it_is_first_read_and_only_then(stage, spec, snapshot):
    damage(snapshot, stage)
    for other, questions in QUERIES.items():
        for ask in questions:
            counter = open_counter(spec, snapshot, "stream")
            if other != stage:
                ask(counter)
                continue
            with pytest.raises(Damaged, match=f"the table {stage!r} is not as it was stored"):
                ask(counter)


@pytest.mark.parametrize("stage", QUERIES)
@pytest.mark.parametrize("engine", ["", "memory"])
def test_rows_in_memory_are_of_files_that_were_all_checked(engine, stage, spec, snapshot):
    assert MAX_BYTES_IN_MEMORY > 1000
    damage(snapshot, stage)
    with pytest.raises(Damaged, match=f"the table {stage!r} is not as it was stored"):
        open_counter(spec, snapshot, engine)


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_missing_or_broken_table_is_damaged(content, engine, spec, snapshot):
    path = snapshot.table_path("discretized")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Damaged, match="is not as it was stored: restore it, or name"):
        open_counter(spec, snapshot, engine)


@pytest.mark.chain
def test_answers_of_workers_on_changed_files_are_dropped(engine, spec, snapshot):
    content = damage(snapshot, "discretized")
    counter = open_counter(spec, snapshot, engine)
    for _ in range(2):
        with pytest.raises(Damaged, match=OTHER_TABLE):
            count_codes(counter)
    count_coordinates(counter)
    snapshot.table_path("discretized").write_bytes(content)
    counter = open_counter(spec, snapshot, engine)
    count_codes(counter)
    snapshot.table_path("discretized").write_bytes(content)
    with pytest.raises(Damaged, match=CHANGED):
        count_codes(counter)


def test_file_put_back_after_counting_gives_no_answer(spec, snapshot):
    path = snapshot.table_path("discretized")
    content, table = path.read_bytes(), pq.read_table(path)
    # Rows of which some are there twice.
    pq.write_table(table.take([0, *range(1, table.num_rows - 1), 0]), path)
    rows = CheckedRows.open(spec, snapshot)
    (actual,) = fold_of(rows.stored_rows, "stream")(OF_CODES)
    assert actual.sum() == table.num_rows
    path.write_bytes(content)
    with pytest.raises(Damaged, match=CHANGED):
        rows.require_stages(["discretized"])


def test_errors_of_counting_another_file_are_hidden(spec, snapshot):
    def fails(_):
        raise ValueError("a value of somebody")

    rows = CheckedRows.open(spec, snapshot)
    content = damage(snapshot, "discretized")
    counter = FoldCounter(spec.domain, rows.checked_fold(fails))
    for fault in (OTHER_TABLE, CHANGED):
        with pytest.raises(Damaged, match=fault):
            count_codes(counter)
        snapshot.table_path("discretized").write_bytes(content)


def test_a_file_is_read_for_its_fingerprint_once(spec, snapshot, monkeypatch):
    stages: list[str] = []
    checked = Snapshot.checked_path
    monkeypatch.setattr(
        Snapshot, "checked_path", lambda each, stage: stages.append(stage) or checked(each, stage)
    )
    counter = open_counter(spec, snapshot, "stream")
    assert stages == []
    for ask in (count_codes, count_codes, count_coordinates, count_codes):
        ask(counter)
    assert stages == ["discretized", "normalized"]


def test_rehearsed_stages_are_checked_before_any_query(spec, snapshot):
    damage(snapshot, "normalized")
    counter, empty = open_counter(spec, snapshot, "stream"), EmptyCounter(spec.domain)
    count_codes(empty)
    assert empty.stages == {"discretized"}
    counter.require_stored(empty)
    count_coordinates(empty)
    for rehearsed in (empty, None):
        with pytest.raises(Damaged, match="the table 'normalized' is not as it was stored"):
            counter.require_stored(rehearsed)


def test_a_spark_that_gives_no_result_counts_no_rows(spec, snapshot, monkeypatch):
    lost = MagicMock()
    for dataset in (lost.range.return_value, lost.range.return_value.mapInArrow.return_value):
        dataset.mapInArrow.return_value.collect.return_value = []
        dataset.repartition.return_value.mapInArrow.return_value.collect.return_value = []
    for module in (clusters, stream):
        monkeypatch.setattr(module, "spark_session", lambda _: lost)
    with pytest.raises(PipelineError, match="expected one result for each of 2 tasks, got 0"):
        list(clusters.workers_of("spark")(str, ["first", "second"]))
    rows = CheckedRows.open(spec, snapshot)
    with pytest.raises(PipelineError, match="one result for each of 1 tasks, got 0"):
        fold_of(rows.stored_rows, "spark")(OF_CODES)

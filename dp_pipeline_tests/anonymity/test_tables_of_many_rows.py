"""The tables of a k-anonymous release are the same however many rows of them are made at a time."""

import numpy as np
import pytest

from dp_pipeline.anonymity import build_method
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee
from dp_pipeline.releases import k_anonymous_tables as tables
from dp_pipeline.results import clusters
from dp_pipeline.results.clusters import LongColumns, Tables

PEOPLE = CodedRows(
    (Column("age", ("young", "grown", "old"), ordered=True), Column("sex", ("f", "m"))),
    np.array([(at % 3, at % 2) for at in range(29)]),
    np.array([at % 5 // 3 for at in range(29)]),
    ("well", "ill"),
)


def released(method: str) -> Tables:
    promise = KAnonymityGuarantee(4)
    recoded = build_method(method, {}, of="test").recode(PEOPLE, promise, seed=0)
    return tables.k_anonymous_tables(PEOPLE, recoded, promise, label="state", is_public=True)


@pytest.mark.parametrize("method", ["mondrian", "hamdist_forward"])
def test_a_table_of_many_batches_is_the_same(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = released(method)
    assert isinstance(whole["released"], dict)
    for module in (tables, clusters):
        monkeypatch.setattr(module, "ROWS_A_BATCH", 7)
    parted = released(method)
    assert isinstance(parted["released"], LongColumns)
    assert [len(part) for part in parted["released"].batches("state")] == [7, 7, 7, 7, 1]
    for table, columns in whole.items():
        assert list(columns) == list(parted[table])
        for name in columns:
            assert parted[table][name].dtype == columns[name].dtype
            np.testing.assert_array_equal(parted[table][name], columns[name])


def test_texts_are_coded_as_unique_codes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ROWS_A_BATCH", 3)
    texts = np.array(["m", "f", "m", "zz", "a", "f", "m"])
    levels, places = tables._levels_and_codes({"sex": texts}, "sex")
    assert levels.tolist() == ["a", "f", "m", "zz"]
    assert places.tolist() == [2, 1, 2, 3, 0, 1, 2]
    assert tables._levels_and_codes({"sex": texts[:0]}, "sex")[1].tolist() == []

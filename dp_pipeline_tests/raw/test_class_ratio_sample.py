"""A sample in which every class has its share, in the order of the rows."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import DeclarationError, SourceError
from dp_pipeline.config.source import Sample
from dp_pipeline.raw.sources import read_source, sample_by_class
from dp_pipeline_tests.raw.written import written_spec

ATTRIBUTES = "{name: {bounds: [0, 99]}, pay: {levels: [low, high], aliases: {low.: low}}}"


def sample_of(classes: list[int], rows: int, seed: int = 7) -> list[int]:
    return sample_by_class(np.array(classes), rows=rows, seed=seed).tolist()


@st.composite
def classes_and_rows(draw: st.DrawFn) -> tuple[list[int], int]:
    classes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=60))
    return classes, draw(st.integers(1, len(classes)))


@given(classes_and_rows(), st.integers(0, 2**64))
def test_every_class_has_its_share_to_within_a_row(drawn, seed):
    classes, rows = drawn
    chosen = sample_of(classes, rows, seed)
    assert len(chosen) == rows
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(range(len(classes)))
    counts = Counter(classes[row] for row in chosen)
    for label, size in Counter(classes).items():
        share = Fraction(rows * size, len(classes))
        assert math.floor(share) <= counts[label] <= math.ceil(share)


def test_spare_rows_go_to_largest_remainders():
    # Shares of 4 rows: 2 2/7, 1 1/7, 4/7; then of 5: 2 6/7, 1 3/7, 5/7; of 3, in halves: 1½, ½, 1.
    classes = [0, 0, 0, 0, 1, 1, 2]
    assert Counter(classes[row] for row in sample_of(classes, 4)) == {0: 2, 1: 1, 2: 1}
    assert Counter(classes[row] for row in sample_of(classes, 5)) == {0: 3, 1: 1, 2: 1}
    halves = [0, 0, 0, 1, 2, 2]
    assert Counter(halves[row] for row in sample_of(halves, 3)) == {0: 2, 2: 1}


def test_seed_decides_the_sample_for_ever():
    classes = [0] * 12 + [1] * 4
    assert sample_of(classes, 4) == [3, 6, 11, 12]
    assert len({tuple(sample_of(classes, 4, seed)) for seed in range(20)}) > 10
    # What a class is called decides nothing.
    classes = [0, 1, 1, 0, 0, 1, 0, 0, 0, 1]
    assert sample_of(classes, 5) == sample_of([3 * label for label in classes], 5)


def test_rows_of_a_class_are_drawn_equally_often():
    classes, times = [0] * 6 + [1] * 3, 4000
    counts = Counter(row for seed in range(times) for row in sample_of(classes, 3, seed))
    # Each row is in a third of the samples. Nine bounds of 4.5 standard deviations: a false alarm
    # in 1.6e5 choices of seeds.
    deviation = math.sqrt(times * Fraction(1, 3) * Fraction(2, 3))
    assert all(abs(counts[row] - times / 3) < 4.5 * deviation for row in range(9))


def people(folder: Path, rows: str, sample: Sample | None, **options: str) -> DatasetSpec:
    (folder / "rows.csv").write_text(f"name,pay\n{rows}")
    spec = written_spec(folder, ATTRIBUTES, **options)
    return replace(spec, source=replace(spec.source, sample=sample))


def test_two_spellings_of_a_level_are_one_class(tmp_path):
    rows = "".join(f"{n},{'low' if n < 4 else ' low.'}\n" for n in range(8)) + "8,high\n9,high\n"
    samples = [read_source(people(tmp_path, rows, Sample(5, "pay", seed))) for seed in range(9)]
    pays = [Counter(table.column("pay").to_pylist()) for table in samples]
    assert {pay["high"] for pay in pays} == {1}
    # By text, 4, 4 and 2 rows of ten would be 2, 2 and 1 of five for every seed.
    assert len({pay["low"] for pay in pays}) > 1


def test_sampled_rows_are_complete_and_in_source_order(tmp_path):
    rows = [(str(n), "high" if n % 3 else "low") for n in range(30)]
    text = "".join(f"{name},{pay}\n" for name, pay in rows)
    all_rows = read_source(people(tmp_path, text, None))
    table = read_source(people(tmp_path, text, Sample(10, "pay", 7)))
    actual = [(row["name"], row["pay"]) for row in table.to_pylist()]
    assert all_rows.num_rows == 30
    assert actual == [row for row in rows if row in actual]
    assert Counter(pay for _, pay in actual) == {"high": 7, "low": 3}


def test_files_are_sampled_together(tmp_path):
    for name, pay in {"a": "low", "b": "high"}.items():
        lines = "".join(f"{n},{pay}\n" for n in range(6))
        (tmp_path / f"{name}.csv").write_text(f"name,pay\n{lines}")
    source = "{kind: csv, paths: [a.csv, b.csv], sample: {rows: 4, by: pay, seed: 7}}"
    table = read_source(written_spec(tmp_path, ATTRIBUTES, source=source))
    assert table.column("pay").to_pylist() == ["low", "low", "high", "high"]


def test_undeclared_texts_are_sampled_by_their_share(tmp_path):
    rows = "1,low\n2,low\n3,none\n4,none\n"
    table = read_source(people(tmp_path, rows, Sample(2, "pay", 7)))
    assert table.column("pay").to_pylist() == ["low", "none"]
    with pytest.raises(SourceError, match="expected at least 5 rows to sample from, got 4: lower"):
        read_source(people(tmp_path, rows, Sample(5, "pay", 7)))


def test_sensitive_rows_are_never_sampled(tmp_path):
    spec = people(tmp_path, "1,low\n", Sample(1, "pay", 7), purpose="release")
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(DeclarationError, match="sample: sensitive data must be read in every row"):
        read_source(spec)

"""How one of several ways to recode rows is chosen: by folds, and by what is known of the ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dp_pipeline.anonymity import choosing
from dp_pipeline.anonymity.choosing import Recode, Way, best_way, expected_ahead
from dp_pipeline.anonymity.kjig import told_columns as columns_of
from dp_pipeline.anonymity.label_lines import LinedRows
from dp_pipeline.anonymity.method import BitRecoding, Recoded
from dp_pipeline.anonymity.partition import CodedRows, KAnonymityGuarantee
from dp_pipeline_tests.anonymity.populations import flags


def either_or(records: int) -> CodedRows:
    """A flag says which of two others is the label."""
    codes = np.random.default_rng(4).integers(0, 2, (records, 3))
    label = np.where(codes[:, 0], codes[:, 1], codes[:, 2])
    return CodedRows(flags(3), codes, label, ("no", "yes"))


def nothing(lined: LinedRows) -> Recoded:
    """All rows are one class."""
    nobody = np.zeros(len(lined.rows), dtype=np.bool_)
    return Recoded(BitRecoding(lined.rows.columns, ()), nobody)


def told_columns(lined: LinedRows) -> Recoded:
    """Columns that tell of the label."""
    return columns_of(lined.rows, lined.promise)


def ways_of(*recodes: Recode) -> list[Way]:
    return [Way(recode) for recode in recodes]


def test_the_way_that_is_learned_most_from_is_chosen():
    rows, promise = either_or(300), KAnonymityGuarantee(5)
    assert best_way(ways_of(nothing, told_columns), rows, promise).recoding.bits
    assert best_way(ways_of(told_columns, nothing), rows, promise).recoding.bits
    untold = replace(rows, target=np.zeros(len(rows), dtype=np.int64))
    assert not best_way(ways_of(nothing, told_columns), untold, promise).recoding.bits


def test_where_nothing_can_be_learned_the_first_way_is_taken():
    # Half of each pattern is ill: what some folds teach is wrong in the others.
    codes = np.repeat(np.array([[0], [1]]), 50, axis=0)
    rows = CodedRows(flags(1), codes, np.arange(100) % 2, ("no", "yes"))
    assert best_way(ways_of(told_columns, nothing), rows, KAnonymityGuarantee(5)).recoding.bits


def test_folds_ask_for_classes_as_fine_as_all_rows_do():
    asked = []

    def noted(lined: LinedRows) -> Recoded:
        asked.append((len(lined.rows), lined.promise.k, lined.promise.diversity))
        return nothing(lined)

    best_way(ways_of(noted, nothing), either_or(200), KAnonymityGuarantee(50, diversity=2))
    assert asked == [*[(160, 40, 2)] * 10, (200, 50, 2)]


@pytest.mark.parametrize(("records", "parts"), [(999, 10), (1_000, 3), (10_000, 2)])
def test_more_rows_are_parted_less_often(records, parts):
    asked = []

    def noted(lined: LinedRows) -> Recoded:
        asked.append(len(lined.rows))
        return nothing(lined)

    best_way(ways_of(noted, nothing), either_or(records), KAnonymityGuarantee(2))
    assert len(asked) == parts + 1


@pytest.mark.parametrize(
    ("ahead", "behind", "is_taken"),
    [
        ([0.1, 0.1, 0.2, 0.1, 0.1], 0.05, True),
        ([0.02, 0.01, 0.02, 0.01, 0.02], 0.0, True),
        # Luck in one fold, and a way that is usually far behind.
        ([0.3, -0.2, 0.0, 0.01, -0.05], 0.01, False),
        # The same folds, and nothing known against it.
        ([0.3, -0.2, 0.0, 0.01, -0.05], 0.0, True),
        ([-0.01, -0.01, -0.02, -0.01, -0.01], 0.0, False),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 0.0, False),
    ],
)
def test_what_folds_say_is_weighed_against_what_is_usual(monkeypatch, ahead, behind, is_taken):
    learned = np.array([[0.6] * 5, [0.6 + one for one in ahead]])
    monkeypatch.setattr(choosing, "_learned", lambda *_: (learned, 0.35))
    ways = [Way(nothing), Way(told_columns, behind)]
    found = best_way(ways, either_or(100), KAnonymityGuarantee(5))
    assert bool(found.recoding.bits) == is_taken


def test_sure_folds_outweigh_what_is_usual():
    usual = np.array([0.0, -0.1])
    sure = expected_ahead(np.array([[0.5, 0.5], [0.6, 0.6]]), usual, noise=1.0)
    unsure = expected_ahead(np.array([[0.5, 0.5], [0.1, 1.1]]), usual, noise=1.0)
    assert np.allclose(sure, [0, 0.1])
    assert unsure[1] == pytest.approx(-0.1, abs=0.01)
    assert unsure[0] == 0

"""Releases of one window after the other: what they cost together, and what they learn for free."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.inference.earlier import (
    UNSEEN_DRIFT,
    EarlierTree,
    StoredTables,
    assume_gaussian_noise,
    combine_with_earlier,
)
from dp_pipeline.models import MODELS
from dp_pipeline.models.clustering.htree_kmeans import HTreeKMeans
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.releases.roll_up import sum_marginals
from dp_pipeline.results.clusters import Synopsis, Tables
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.trees import BitTree, Prefixes
from dp_pipeline_tests.instruments import ForcedNoise
from dp_pipeline_tests.models.contract import LargeAnswers, Run, privacy_loss, run
from dp_pipeline_tests.models.tables import counter_of, dependent_rows, domain_of
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, Row

pytestmark = pytest.mark.chain

LEARNS: dict[str, Any] = {"plan_from": "previous", "smooth": "true"}
MODELS_THAT_LEARN = {
    "htree_kmeans": HTreeKMeans(k=2, columns=("x", "y"), **LEARNS),
    "htree_kmeans, not smoothed": HTreeKMeans(k=2, columns=("x", "y"), plan_from="previous"),
    "htree_kmeans in five dimensions": HTreeKMeans(k=2, **LEARNS),
    "one_shot": OneShot(**LEARNS),
    "one_shot, small cliques": OneShot(clique_cells=16, **LEARNS),
}
every_model = pytest.mark.parametrize("name", MODELS_THAT_LEARN)
WINDOWS = 3


def in_turn(name: str, windows: list[list[Row]], noise: Any, epsilon: Fraction) -> list[Run]:
    """A release of each window, each planned from the one before, along the same answers."""
    runs: list[Run] = []
    earlier: Tables | None = None
    for number, rows in enumerate(windows):
        how = {"epsilon": epsilon, "noise": noise(number), "earlier": earlier}
        runs.append(run(MODELS_THAT_LEARN[name], rows, **how))
        earlier = runs[-1].released.tables()
    return runs


def losses(name: str, windows: list[list[Row]], others: list[list[Row]], seed: int) -> list[Any]:
    epsilon = Fraction(1)
    runs = [
        in_turn(name, rows, lambda n: ForcedNoise(seed + n), epsilon) for rows in (windows, others)
    ]
    return [privacy_loss(*pair) for pair in zip(*runs, strict=True)]


@every_model
@settings(max_examples=6)
@given(seed=st.integers(0, 1000), who=st.integers(0, 9))
def test_a_person_loses_in_the_windows_that_she_is_in(name: str, seed: int, who: int) -> None:
    """Exact, along any answers: releases of other windows read none of her rows."""
    person = [TEN_PEOPLE[who]]
    without = [list(TEN_PEOPLE[:5]), list(TEN_PEOPLE[3:]), list(TEN_PEOPLE)]
    in_all = [rows + person for rows in without]
    in_one = [without[0], without[1] + person, without[2]]
    each = losses(name, in_all, without, seed)
    assert all(loss <= 1 for loss in each)
    assert sum(each) <= WINDOWS
    alone = losses(name, in_one, without, seed)
    assert alone[0] == alone[2] == 0
    assert alone[1] <= 1


@pytest.mark.parametrize("name", ["htree_kmeans", "htree_kmeans, not smoothed", "one_shot"])
def test_a_person_counted_every_time_uses_all_of_three_windows(name: str) -> None:
    runs = [
        in_turn(name, [rows] * WINDOWS, lambda _: LargeAnswers(), Fraction(1, 10))
        for rows in (list(TEN_PEOPLE[-1:]), [])
    ]
    lost = sum(privacy_loss(*pair) for pair in zip(*runs, strict=True))
    # Dependence is nothing that a person alone could have.
    spends = runs[0][0].spends
    free = [spend.epsilon for spend in spends if spend.what.startswith("total of the scores")]
    assert lost == Fraction(3, 10) - sum(free)
    assert len(free) <= 1


@every_model
def test_what_is_planned_from_another_window_spends_it_all(name: str) -> None:
    for release in in_turn(name, [list(TEN_PEOPLE)] * 2, lambda _: None, Fraction(2)):
        assert sum(spend.epsilon for spend in release.spends) == 2


@pytest.mark.parametrize("name", [model for model in MODELS if MODELS[model].learns])
def test_only_the_same_numbers_are_smoothed(name: str) -> None:
    model = MODELS[name](smooth="true")
    with pytest.raises(DeclarationError, match="The parameter `smooth` counts the same boxes or"):
        model.check(TOWN)


def test_nothing_is_spent_on_what_the_window_before_knows() -> None:
    name, rows = "one_shot, small cliques", list(TEN_PEOPLE) * 40
    cold, again = in_turn(name, [rows] * 2, lambda _: None, Fraction(2))
    finding = [spend.what for spend in cold.spends if not spend.what.startswith(MEASURING)]
    assert finding
    assert all(spend.what.startswith(MEASURING) for spend in again.spends)
    cold_tables, tables = (fit.released.tables()["measured"]["marginal"] for fit in (cold, again))
    assert {*cold_tables} == {*tables}


MEASURING = ("number of rows", "marginal of")


def test_no_one_way_marginal_is_measured_for_next_to_nothing() -> None:
    """The fit begins at one-way marginals: pure noise there is not mended by any table."""
    sizes = (4,) * 8
    domain, rows = domain_of(sizes), dependent_rows(sizes, 20_000)
    model, earlier = OneShot(clique_cells=1 << 10, plan_from="previous"), None
    worst = []
    for _ in range(2):
        released = run(
            model, counter_of(domain, rows), domain=domain, noise=SeededNoise(5), earlier=earlier
        ).released
        earlier = released.tables()
        known = StoredTables.of(earlier, domain)
        assert max(len(marginal.attributes) for marginal in known.measured) > 1
        alone = [table.variance**0.5 for table in known.measured if len(table.attributes) == 1]
        assert len(alone) == len(sizes)
        worst.append(max(alone))
    assert worst[1] < 1.5 * worst[0]


def test_tables_that_leave_an_attribute_out_are_not_planned_from() -> None:
    """It was not declared then: tables of the others alone would draw it evenly."""
    fewer, more = domain_of((3,) * 3), domain_of((3,) * 4)
    rows = dependent_rows((3,) * 4, 2_000)
    first = run(OneShot(), counter_of(fewer, rows[:, :3]), domain=fewer).released
    model = OneShot(plan_from="previous")
    again = run(model, counter_of(more, rows), domain=more, earlier=first.tables()).released
    known = StoredTables.of(again.tables(), more)
    assert {name for table in known.measured for name in table.attributes} == {*more.names}


@pytest.mark.parametrize("fall", [0.0, 10.0, 20.0, 40.0])
@pytest.mark.parametrize("cells", [1, 5])
def test_a_smoothed_number_says_how_far_it_is_pulled(cells: int, fall: float) -> None:
    """The intervals of a correct program, .90, fall below .88 once in 50 runs of other seeds."""
    rng, before = np.random.default_rng(3), np.full(cells, 500.0)
    held = []
    for _ in range(1_000):
        now = before - fall + rng.laplace(0, 10 / 2**0.5, cells)
        values, spread = combine_with_earlier(now, 100.0, before, 9.0, doubt=-UNSEEN_DRIFT)
        held.append(np.mean(np.abs(values - before + fall) <= 1.96 * spread**0.5))
    assert np.mean(held) > 0.88


def test_a_world_that_stands_still_is_smoothed() -> None:
    """The mean of ten windows has a tenth of one's variance, and chance differences that look like
    drift cost up to half as much again; with 400 cells a false alarm is below 1e-4.
    """
    rng, truth = np.random.default_rng(3), np.linspace(0, 500, 400)
    estimate, spread = truth + rng.normal(0, 10, 400), 100.0
    for _ in range(9):
        estimate, spread = combine_with_earlier(
            truth + rng.normal(0, 10, 400), 100.0, estimate, spread
        )
    error = float(np.mean((estimate - truth) ** 2))
    assert 10.0 <= spread <= 15.0
    assert error == pytest.approx(spread, rel=0.33)


def test_a_world_that_has_moved_keeps_the_new_numbers() -> None:
    rng, now = np.random.default_rng(4), np.linspace(0, 500, 400)
    noisy = now + rng.normal(0, 10, 400)
    estimate, spread = combine_with_earlier(noisy, 100.0, now[::-1].copy(), 100.0)
    assert np.abs(estimate - noisy).max() < 5
    assert spread == pytest.approx(100.0, rel=0.02)


def test_earlier_tables_are_read_back_as_they_were_measured() -> None:
    model, rows = MODELS_THAT_LEARN["one_shot"], list(TEN_PEOPLE) * 40
    released = run(model, rows, epsilon=Fraction(1, 2)).released
    known = StoredTables.of(released.tables(), TOWN)
    for marginal, before in zip(known.measured, released.measured, strict=True):
        assert marginal.attributes == before.attributes
        assert marginal.table.tolist() == before.table.tolist()
        assert marginal.variance == pytest.approx(before.variance, rel=1e-3)


def test_tables_over_other_levels_are_not_planned_from() -> None:
    sex = Attribute("sex", "sex", "drop", cells=Levels(("f", "m")))
    three = Attribute("sex", "sex", "drop", cells=Levels(("f", "m", "x")))
    table = NoisyMarginal(("sex",), np.array([3, 4]), Fraction(1))
    measured = {"marginal": ["sex"], "cells": [2], "deviation": [table.variance**0.5]}
    tables: Tables = {"cells": {"noisy_count": table.table}}
    tables["measured"] = {name: np.array(column) for name, column in measured.items()}
    assert StoredTables.of(tables, Domain((sex,))) is not None
    assert StoredTables.of(tables, Domain((three,))) is None
    assert StoredTables.of(tables, Domain((replace(sex, name="gender"),))) is None
    assert StoredTables.of({"measured": tables["measured"]}, Domain((sex,))) is None


BOX = (Coordinate(0.0, 8.0), Coordinate(0.0, 4.0))


def grown(depth: int, rng: np.random.Generator) -> tuple[BitTree, Prefixes]:
    """A tree whose leaves were cut by chance."""
    tree = BitTree.over(("x", "y"), BOX)
    live, leaves = Prefixes.root(), []
    for _ in range(depth):
        goes_on = rng.random(len(live)) < 0.7
        leaves.append(live.where(~goes_on))
        live = live.where(goes_on).children(1)
    return tree, Prefixes.concatenate([*leaves, live])


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), depth=st.integers(0, 9))
def test_the_mass_of_released_boxes_is_that_of_their_nodes(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    tree, nodes = grown(depth, rng)
    # A noisy count below nothing says that there was nothing.
    noisy = rng.integers(-9, 50, len(nodes)).astype(np.float64)
    weights = np.maximum(0.0, noisy)
    order = rng.permutation(len(nodes))
    lower, upper = tree.boxes(nodes.where(order), BOX)
    known = EarlierTree.of(tree, Synopsis(("x", "y"), lower, upper, noisy[order]), BOX)
    assert known.rows == weights.sum()
    assert known.mass(nodes) == pytest.approx(weights)
    halves = known.mass(nodes.children(1)).reshape(-1, 2)
    assert halves == pytest.approx(np.repeat(weights[:, None] / 2, 2, axis=1))


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([0.01, 0.3, 5.0]))
def test_new_leaves_cover_the_box_and_are_small_where_rows_were(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    tree, nodes = grown(6, rng)
    weights = rng.pareto(1.0, len(nodes)) * 20
    known = EarlierTree.of(tree, Synopsis(("x", "y"), *tree.boxes(nodes, BOX), weights), BOX)
    leaves = known.leaves(rate=rate, caution=1.0)
    assert leaves.are_disjoint()
    assert np.exp2(-leaves.depths.astype(float)).sum() == pytest.approx(1.0)
    assert (known.mass(leaves) * rate * 1.5 < 2 + 1e-9).all()


def test_the_variance_of_a_roll_up_is_that_of_its_parts_together() -> None:
    """200 sums of three releases over 9 cells and a total: the mean square error is within three
    standard errors of what is stated (seeded; a false alarm of 3 in 1,000 seeds).
    """
    model, squares = Independent(), list[float]()
    for seed in range(200):
        known = []
        for window in range(3):
            noise = SeededNoise(1000 * seed + window)
            released = run(model, TEN_PEOPLE, epsilon=Fraction(1), noise=noise).released
            tables = StoredTables.of(released.tables(), TOWN)
            known.append(tables)
        for names, exact in (("colour",), [5, 2, 3]), (("smokes",), [6, 4]):
            total = sum_marginals(known, names)
            errors = total.table - 3 * np.array(exact)
            squares += (errors**2 / total.variance).tolist()
    mean, error = np.mean(squares), np.std(squares) / len(squares) ** 0.5
    assert abs(mean - 1) < 3 * error


def test_tables_over_different_groups_are_not_added_up() -> None:
    pair = assume_gaussian_noise(("sex", "age"), np.array([[1, 2], [3, 4]]), 2.0)
    alone = assume_gaussian_noise(("age",), np.array([5, 6, 7]), 2.0)
    known = [
        StoredTables((alone, pair), {"age": Grouping(groups)}) for groups in ((0, 1, 1), (0, 0, 1))
    ]
    assert sum_marginals(known, ("sex", "age")) is None
    assert sum_marginals(known[:1] * 2, ("sex", "age")) is not None
    assert sum_marginals(known, ("sex",)) is None
    # A table of one attribute is of its levels.
    for tables in (known, known[:1] * 2):
        total = sum_marginals(tables, ("age",))
        assert total.table.tolist() == [10, 12, 14]
        assert float(total.variance) == pytest.approx(4)

"""MST, AIM-like, JTree, PriView and the threshold filter: what each measures, and what it pays."""

from fractions import Fraction
from itertools import combinations, product
from math import ceil

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.answers.tables import open_table
from dp_pipeline.config.constraint_parser import constrained_domain
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.scores import UNIT
from dp_pipeline.gate.sparse_sampler import expected_above_threshold
from dp_pipeline.inference.clique_growth import CliqueGrowth
from dp_pipeline.models.base import guarantee_of
from dp_pipeline.models.tables import aim_like, jtree, privhd
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.jtree import JTree
from dp_pipeline.models.tables.mst import Mst
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.models.tables.threshold_filter import ThresholdFilter
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.accountant import EXPONENTIAL, GAUSSIAN, LAPLACE, NOISY_MAX, Spend
from dp_pipeline.results.measurement import codes_of_keys, threshold_for
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.instruments import SILENT, ForcedNoise, curator_over
from dp_pipeline_tests.models.contract import Constant, Run, run
from dp_pipeline_tests.models.tables import (
    BITS,
    MIXED,
    TWINS,
    counter_of,
    every_delta,
    levels,
    table_of,
)
from dp_pipeline_tests.populations import NOBODY, TEN_PEOPLE, TOWN, LoopCounter

ONE = Fraction(1)


def measured_pairs(table: SyntheticTable) -> set[frozenset[str]]:
    return {
        frozenset(marginal.attributes)
        for marginal in table.measured
        if len(marginal.attributes) == 2
    }


TRIPLETS = tuple((*x * 3, *y * 3) for x, y in product("01", repeat=2)) * 20


@pytest.mark.parametrize(("people", "dependent"), [(TWINS, "ab cd ef"), (TRIPLETS, "")])
def test_without_noise_pairs_that_depend_are_in_a_tree(people, dependent: str) -> None:
    pairs = measured_pairs(table_of(run(Mst(), people, domain=BITS, epsilon=SILENT)))
    assert {frozenset(pair) for pair in dependent.split()} <= pairs
    assert len(pairs) == 5
    assert nx.is_tree(nx.Graph([tuple(pair) for pair in pairs]))


@pytest.mark.parametrize("seed", range(5))
def test_pairs_over_the_cap_are_not_drawn(seed: int) -> None:
    # Sizes 2, 3, 5, 40: only a with b, a with c and b with c have at most 15 cells.
    table = table_of(run(Mst(clique_cells=40), (), domain=MIXED, seed=seed))
    assert measured_pairs(table) <= {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert len(measured_pairs(table)) == 2
    assert ("d",) in table.cliques


def test_levels_that_nobody_has_go_together() -> None:
    domain = levels(a=2, d=40)
    people = tuple((x, y) for x, y in product("01", ("3", "20"))) * 50
    table = table_of(run(Mst(), people, domain=domain, epsilon=Fraction(10)))
    (pair,) = [marginal for marginal in table.measured if len(marginal.attributes) == 2]
    # 0–2, 3, 4–19, 20 and the others, unless the noise in many of them adds up to 3σ.
    assert 5 <= pair.table.shape[1] <= 10
    assert (table.counts(("d",))[[3, 20]] >= 90).all()


@every_delta
def test_a_third_is_for_attributes_draws_and_pairs_each(delta: Fraction | None) -> None:
    done = run(Mst(), TWINS, domain=BITS, delta=delta)
    amount = guarantee_of(Mst(), Fraction(1), delta).amount
    table_noise, draw = (LAPLACE, NOISY_MAX) if delta is None else (GAUSSIAN, EXPONENTIAL)
    assert [spend.mechanism for spend in done.spends] == (
        [table_noise] * 6 + [draw] * 5 + [table_noise] * 5
    )
    assert [spend.epsilon for spend in done.spends] == [amount / 18] * 6 + [amount / 15] * 10


def test_single_tables_are_over_levels_where_no_edge_fits() -> None:
    never = [{"a": 0, "b": [1, 2]}, {"b": [3, 4], "c": 0}]
    domain = constrained_domain({"never": never}, levels(a=3, b=16, c=3))
    people = (("1", "0", "1"),) * 300
    table = table_of(run(Mst(clique_cells=16), people, domain=domain))
    assert table.groupings["b"].size < 16
    assert [marginal.attributes for marginal in table.measured] == [("a",), ("b",), ("c",)] * 2
    assert open_table(table.tables()).count().value == pytest.approx(300, abs=50)


@pytest.mark.parametrize("model", [Mst(clique_cells=3), AimLike(clique_cells=3)])
def test_where_no_pair_fits_the_single_attributes_get_everything(model) -> None:
    done = run(model, (), domain=BITS)
    assert [spend.epsilon for spend in done.spends] == [Fraction(1, 6)] * 6


def rounds_of(done: Run) -> list[tuple[Spend, Spend]]:
    """Every choice, and what was measured then."""
    spends = [spend for spend in done.spends if spend.what != "number of rows"]
    choices = [
        index for index, spend in enumerate(spends) if spend.mechanism in (NOISY_MAX, EXPONENTIAL)
    ]
    return [(spends[index], spends[index + 1]) for index in choices]


def test_without_noise_the_pairs_that_depend_are_measured_first() -> None:
    done = run(AimLike(candidates=1), TWINS, domain=BITS, epsilon=SILENT)
    first = {table.what for _, table in rounds_of(done)[:3]}
    assert first == {"marginal of a, b", "marginal of c, d", "marginal of e, f"}


def test_what_three_attributes_have_together_is_seen() -> None:
    # c = a xor b: every pair is independent.
    people = tuple((a, b, "01"[a != b]) for a, b in product("01", repeat=2)) * 20
    domain = levels(a=2, b=2, c=2)
    table = table_of(run(AimLike(), people, domain=domain, epsilon=SILENT))
    assert ("a", "b", "c") in {marginal.attributes for marginal in table.measured}
    exact = np.zeros((2, 2, 2))
    np.add.at(exact, tuple(np.array([[int(x) for x in row] for row in people]).T), 1)
    assert np.abs(table.counts(("a", "b", "c")) - exact).max() <= 1
    pairs = table_of(run(AimLike(candidates=1), people, domain=domain, epsilon=SILENT))
    assert max(len(marginal.attributes) for marginal in pairs.measured) == 2


def test_candidates_are_pairs_and_the_smallest_triples() -> None:
    sizes = {"a": 2, "b": 3, "c": 5, "d": 40}
    pairs = list(combinations(sizes, 2))
    assert AimLike(candidates=1)._candidates(sizes) == pairs
    assert AimLike(candidates=7)._candidates(sizes) == [*pairs, ("a", "b", "c")]
    assert len(AimLike()._candidates(sizes)) == 10
    assert AimLike(clique_cells=40)._candidates(sizes) == [
        ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"),
    ]  # fmt: skip


@every_delta
def test_a_round_costs_the_same_or_twice_as_much(delta: Fraction | None) -> None:
    done = run(AimLike(), TWINS, domain=BITS, delta=delta)
    begins = guarantee_of(AimLike(), Fraction(1), delta).amount / 24
    costs = [choice.epsilon + table.epsilon for choice, table in rounds_of(done)]
    assert [spend.epsilon for spend in done.spends[:6]] == [begins * Fraction(9, 10)] * 6
    assert all(choice.epsilon * 9 == table.epsilon for choice, table in rounds_of(done))
    for before, after in zip([begins, *costs[:-2]], costs[:-1], strict=True):
        assert after in (before, 2 * before)
    assert costs[-1] >= costs[-2]


def test_patience_decides_how_large_rounds_become() -> None:
    # With everybody the same and no noise, a second table says nothing that is new.
    impatient = run(AimLike(patience=Fraction(4)), (), domain=BITS, epsilon=Fraction("0.1"))
    patient = run(AimLike(patience=Fraction(0)), TWINS, domain=BITS)
    assert len(rounds_of(impatient)) < 8
    costs = [choice.epsilon + table.epsilon for choice, table in rounds_of(patient)]
    assert set(costs[:-1]) == {Fraction(1, 24)}
    assert len(costs) <= 24


def test_a_table_that_fits_no_clique_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[tuple[str, ...]] = []
    sound = aim_like._State.grow_graph

    def refuse_some(state: object, names: tuple[str, ...]) -> CliqueGrowth | None:
        if len(refused) < 3:
            refused.append(names)
            return None
        return sound(state, names)  # type: ignore[arg-type]

    monkeypatch.setattr(aim_like._State, "grow_graph", refuse_some)
    done = run(AimLike(), TWINS, domain=BITS)
    assert sum(spend.epsilon for spend in done.spends) == 1
    measured = {marginal.attributes for marginal in table_of(done).measured}
    assert len(set(refused)) == 3
    assert not measured & set(refused)


def test_single_attributes_are_measured_again_if_no_table_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aim_like._State, "grow_graph", lambda *_: None)
    done = run(AimLike(), TWINS, domain=BITS)
    assert sum(spend.epsilon for spend in done.spends) == 1
    measured = [marginal.attributes for marginal in table_of(done).measured]
    assert measured == [(name,) for name in "abcdef"] * 2


def test_constraints_over_the_cap_leave_room_for_tables() -> None:
    """a and b have 15 cells together: each further edge would leave a clique above 8."""
    never = {"never": [{"a": 0, "b": 0}]}
    domain = constrained_domain(never, levels(a=5, b=3, c=2, d=3))
    nobody = counter_of(domain, np.zeros((0, 4)))
    table = table_of(run(AimLike(clique_cells=8), nobody, domain=domain))
    assert measured_pairs(table)


def edges_of(done: Run) -> set[frozenset[str]]:
    return {frozenset(marginal.attributes) for marginal in table_of(done).measured}


def draws_of(done: Run) -> list[Fraction]:
    return [spend.epsilon for spend in done.spends if spend.mechanism == NOISY_MAX]


def test_what_depends_is_joined_and_nothing_else() -> None:
    done = run(JTree(clique_cells=4), TWINS, domain=BITS, epsilon=SILENT)
    assert edges_of(done) == {frozenset("ab"), frozenset("cd"), frozenset("ef")}


def test_a_threshold_is_that_of_the_paper_in_rows() -> None:
    growth = jtree.CliqueGrowth(dict(zip(MIXED.names, MIXED.shape(MIXED.names), strict=True)), 9)
    # θ = φ²·(min − 1)/2 nats, and U = n·√(θ/2).
    for pair, smaller in {("a", "d"): 2, ("b", "c"): 3, ("c", "d"): 5}.items():
        theta = 0.2**2 * (smaller - 1) / 2
        limit = JTree()._threshold(pair, growth, 1000) / UNIT
        assert limit == pytest.approx(1000 * (theta / 2) ** 0.5, rel=1e-3)


def test_a_higher_threshold_draws_fewer_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    # Merging would join the two small tables whether or not they depend.
    monkeypatch.setattr(jtree, "bigger_cliques", lambda tree, *_, **__: tree)
    people = tuple(
        (x, x if index % 3 else y) for index, (x, y) in enumerate([*product("01", "01")] * 9)
    )
    pair = levels(a=2, b=2)
    low, high = (JTree(correlation=Fraction(n, 10), nominal_rows=36) for n in (2, 9))
    assert edges_of(run(low, people, domain=pair, epsilon=SILENT)) == {frozenset("ab")}
    assert len(edges_of(run(high, people, domain=pair, epsilon=SILENT))) == 2


def test_cliques_are_measured_and_no_larger_than_is_useful() -> None:
    # 0.7 · 300 / (4 · 6) = 8.75 cells.
    for seed in range(5):
        table = table_of(run(JTree(nominal_rows=300), TWINS, domain=BITS, noise=ForcedNoise(seed)))
        assert max(marginal.table.size for marginal in table.measured) <= 8
        assert [marginal.attributes for marginal in table.measured] == list(table.cliques)


def test_every_draw_costs_its_share_and_tables_get_the_rest() -> None:
    done = run(JTree(nominal_rows=40), TWINS, domain=BITS, epsilon=SILENT)
    draws = draws_of(done)
    # Three edges, then twice none, of ⌈2 · 5⌉.
    assert draws == [SILENT * 3 / 100] * (3 + privhd.PATIENCE)
    tables = [spend.epsilon for spend in done.spends if spend.mechanism != NOISY_MAX]
    assert sum(tables) == SILENT - sum(draws)


def test_without_a_pair_that_fits_nothing_is_drawn() -> None:
    assert draws_of(run(JTree(nominal_rows=1), TWINS, domain=BITS)) == []
    assert draws_of(run(JTree(edges=Fraction(0)), TWINS, domain=BITS)) == []


def test_at_most_as_many_edges_are_drawn_as_were_declared() -> None:
    for kappa in (Fraction(1, 5), Fraction(1), Fraction(2)):
        model = JTree(nominal_rows=10**6, edges=kappa, clique_cells=8)
        for seed in range(5):
            done = run(model, TWINS, domain=BITS, noise=ForcedNoise(seed))
            assert len(draws_of(done)) <= ceil(kappa * 5)


DESIGNS = {
    "by cells": PriView(),
    "small views": PriView(view_cells=8),
    "pairs": PriView(view_size=2),
    "three at a time": PriView(view_size=3, family_cells=8),
}
every_design = pytest.mark.parametrize("model", DESIGNS.values(), ids=DESIGNS.keys())


@every_design
@pytest.mark.parametrize(
    ("domain", "rows"),
    [(BITS, TWINS), (TOWN, TEN_PEOPLE), (MIXED, ())],
    ids=["bits", "town", "mixed"],
)
def test_every_pair_is_in_a_view_and_all_views_share_epsilon(model, domain, rows) -> None:
    done = run(model, rows, domain=domain)
    views = model.views(domain)
    assert tuple(marginal.attributes for marginal in table_of(done).measured) == views
    held = {pair for view in views for pair in combinations(view, 2)}
    assert held == set(combinations(domain.discrete, 2))
    assert [(spend.mechanism, spend.epsilon) for spend in done.spends] == [
        (LAPLACE, ONE / len(views))
    ] * len(views)
    assert sum(marginal.table.size for marginal in table_of(done).measured) == model.most_cells(
        domain
    )


def test_a_view_that_passes_the_cap_is_refused_by_name() -> None:
    PriView(view_size=3).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 500 cells, but that of b, c, d has 600"):
        PriView(view_size=3, clique_cells=500).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 100 cells, but that of [abc], d has"):
        PriView(clique_cells=100).check(MIXED)


def test_without_noise_an_answer_is_what_the_views_leave() -> None:
    model = PriView(view_size=2)
    table = table_of(run(model, TWINS, domain=BITS, epsilon=SILENT))
    (exact,) = LoopCounter(TWINS, BITS).count([("f", "b", "c", "a", "e")])
    # The three pairs are independent of each other: that is the largest entropy.
    answer = model.answer(table, ("f", "b", "c", "a", "e"))
    assert np.allclose(answer, exact.open_at_the_gate(), atol=1e-6)


@every_design
def test_answers_have_no_negative_cell_and_agree_on_their_total(model: PriView) -> None:
    table = table_of(run(model, TWINS, domain=BITS, epsilon=ONE / 5))
    answers = [model.answer(table, names) for names in (("a",), ("b", "a"), ("c", "e", "a", "f"))]
    assert all((answer >= 0).all() for answer in answers)
    assert np.allclose([answer.sum() for answer in answers], answers[0].sum(), rtol=0.1)


HUGE = levels(**{f"x{at}": 7 for at in range(22)})
"""7^22 cells, a little below 2^62."""


@settings(max_examples=50)
@given(
    cells=st.integers(1, 1 << 62),
    scale=st.fractions(Fraction(1, 100), 10**4, max_denominator=1000),
    many=st.integers(1, 10**4),
)
def test_a_threshold_is_the_least_that_so_few_empty_cells_reach(cells, scale, many):
    threshold = threshold_for(cells, scale, empty_cells=many)
    assert threshold >= 1
    assert expected_above_threshold(cells, threshold, scale) <= many * (1 + 1e-9)
    lower = expected_above_threshold(cells, threshold - 1, scale)
    assert threshold == 1 or lower >= many * (1 - 1e-9)


def crowd(rows: int) -> MemoryCounter:
    """Half of all people in one cell, the others each in one of their own."""
    rng = np.random.default_rng(5)
    codes = {name: rng.integers(0, 7, rows, dtype=np.uint8) for name in HUGE.names}
    for code in codes.values():
        code[: rows // 2] = 3
    return MemoryCounter(HUGE, coordinates={}, codes=codes, rows=rows)


def test_of_a_huge_table_the_crowded_cell_is_kept() -> None:
    model = ThresholdFilter(empty_cells=1)
    curator = curator_over(crowd(2000), epsilon=ONE, domain=HUGE)
    fitted = model.fit(curator, epsilon=ONE, rng=np.random.default_rng(1))
    curator.accountant.require_all_spent()
    crowded = (fitted.codes == 3).all(axis=1)
    assert crowded.mean() > 0.7
    assert abs(len(fitted.codes) - 2000) < 1000


def test_a_threshold_is_of_the_noise_of_persons_rows() -> None:
    model = ThresholdFilter(empty_cells=1)
    scale = run(model, (), domain=BITS, distance=3).draws[1].scale
    threshold = threshold_for(64, scale, empty_cells=1)
    for answer, cells in ((threshold - 1, 0), (threshold, 64)):
        done = run(model, (), domain=BITS, distance=3, noise=Constant(answer))
        assert len(done.draws[1].answer) == cells


def test_where_no_cell_is_kept_rows_are_anywhere() -> None:
    model = ThresholdFilter(empty_cells=1, synthetic_rows=3000)
    table = table_of(run(model, NOBODY, epsilon=Fraction(1000)))
    assert table.codes.shape == (3000, 3)
    assert (table.counts(("colour",)) > 800).all()


def test_keys_are_the_codes_in_mixed_radix() -> None:
    shape = (3, 1, 4, 2)
    keys = np.arange(24)
    assert np.array_equal(codes_of_keys(keys, shape).T, np.unravel_index(keys, shape))
    last = codes_of_keys(np.array([7**22 - 1]), (7,) * 22)
    assert last.tolist() == [[6] * 22]


def test_a_table_of_too_many_cells_is_refused_by_name() -> None:
    ThresholdFilter().check(HUGE)
    wider = levels(**{f"x{index}": 7 for index in range(23)})
    with pytest.raises(DeclarationError, match=r"at most 2\^62 cells together, but x0, x1, .*x22"):
        ThresholdFilter().check(wider)
    ThresholdFilter(attributes=("x1", "x22")).check(wider)

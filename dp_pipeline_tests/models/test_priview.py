"""PriView: its views are public, they hold every pair, and rows agree with them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.models.tables import priview
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.release.accountant import LAPLACE
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.errors import BudgetExceeded, DeclarationError
from dp_pipeline_tests.models.contract import check_budget, check_loss, check_replay, run
from dp_pipeline_tests.models.tables import BITS, FEW, MIXED, TWINS, levels, table_of, wide
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN, LoopCounter

ONE = Fraction(1)
SILENT = Fraction(10**4)
MODELS = {
    "by cells": PriView(),
    "small views": PriView(view_cells=8),
    "pairs": PriView(view_size=2),
    "three at a time": PriView(view_size=3, family_cells=8),
}
DOMAINS = {"binary": (BITS, TWINS), "town": (TOWN, TEN_PEOPLE), "mixed": (MIXED, ())}

every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
every_domain = pytest.mark.parametrize("domain, rows", DOMAINS.values(), ids=DOMAINS.keys())


# What is measured.


@every_model
@every_domain
def test_every_pair_is_in_a_view_and_all_views_share_epsilon(model, domain, rows) -> None:
    done = run(model, rows, domain=domain)
    views = model.views(domain)
    assert tuple(one.attributes for one in table_of(done).measured) == views
    held = {pair for view in views for pair in combinations(view, 2)}
    assert held == set(combinations(domain.discrete, 2))
    assert [(one.mechanism, one.epsilon) for one in done.spends] == [
        (LAPLACE, ONE / len(views))
    ] * len(views)
    assert sum(one.table.size for one in table_of(done).measured) == model.most_cells(domain)


def test_eight_binary_attributes_are_one_view_and_sixteen_are_six() -> None:
    for many, views in ((8, 1), (9, 3), (16, 6)):
        bits = levels(**{f"x{at}": 2 for at in range(many)})
        assert len(PriView().views(bits)) == views
        assert {len(view) for view in PriView(view_size=4).views(bits)} <= {2, 3, 4}


def test_a_view_that_passes_the_cap_is_refused_by_name() -> None:
    PriView(view_size=3).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 500 cells, got b, c, d with 600"):
        PriView(view_size=3, clique_cells=500).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 100 cells, got [abc], d with"):
        PriView(clique_cells=100).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 32 cells, got d with 40"):
        PriView(clique_cells=32).check(MIXED)


# What comes out.


def test_without_noise_pairs_of_rows_are_those_of_the_people() -> None:
    for model in MODELS.values():
        table = table_of(run(model, TWINS, domain=BITS, epsilon=SILENT))
        for pair in (("a", "b"), ("c", "d"), ("e", "f")):
            assert table.counts(pair).tolist() == [[20, 0], [0, 20]]


def test_without_noise_an_answer_from_the_views_is_the_marginal_that_they_leave() -> None:
    model = PriView(view_size=2)
    table = table_of(run(model, TWINS, domain=BITS, epsilon=SILENT))
    (exact,) = LoopCounter(TWINS, BITS).count([("f", "b", "c", "a", "e")])
    # The three pairs are independent of each other: that is the largest entropy.
    found = model.answer(table, ("f", "b", "c", "a", "e"))
    assert np.allclose(found, exact.open_at_the_gate(), atol=1e-6)


@every_model
def test_answers_have_no_negative_cell_and_agree_on_their_total(model: PriView) -> None:
    table = table_of(run(model, TWINS, domain=BITS, epsilon=ONE / 5))
    answers = [model.answer(table, names) for names in (("a",), ("b", "a"), ("c", "e", "a", "f"))]
    assert all((answer >= 0).all() for answer in answers)
    assert np.allclose([answer.sum() for answer in answers], answers[0].sum(), rtol=0.1)


# What is paid.


@every_model
@every_domain
@pytest.mark.parametrize("distance", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction("0.1"), Fraction(5, 7)], ids=str)
def test_the_scales_drawn_prove_exactly_what_was_asked(
    model, domain, rows, distance: int, epsilon: Fraction
) -> None:
    check_budget(model, rows, epsilon=epsilon, distance=distance, domain=domain)


def test_views_that_are_not_shared_for_exceed_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # A mutant: one view more than ε was divided by.
    design = priview.covering_design
    views = [design({"a": 2, "b": 2, "c": 2}, most_cells=8, most_attributes=2)]
    monkeypatch.setattr(PriView, "views", lambda *_: Miscounted(views[0]))
    with pytest.raises(BudgetExceeded):
        run(PriView(), TWINS, domain=BITS)


class Miscounted(tuple):
    """One fewer than there are."""

    def __len__(self) -> int:
        return super().__len__() - 1


people = st.lists(st.sampled_from(list(product("01", repeat=6))), max_size=12)


@every_model
@settings(derandomize=True, deadline=None, max_examples=15)
@given(rows=people, person=st.sampled_from(TWINS), seed=st.integers(0, 1000))
def test_along_any_answers_a_person_moves_their_log_probability_by_at_most_epsilon(
    model: PriView, rows: list[tuple], person: tuple, seed: int
) -> None:
    loss = check_loss(model, rows, (person,) * 2, epsilon=ONE, distance=2, seed=seed, domain=BITS)
    assert loss == ONE


@every_model
def test_recorded_answers_replayed_over_nobody_give_the_same_bytes(model: PriView) -> None:
    check_replay(model, TWINS, domain=BITS, elsewhere=[()])
    check_replay(model, TEN_PEOPLE, elsewhere=[None])


def test_another_size_of_families_replays_the_same_answers() -> None:
    transcript = Transcript()
    run(PriView(), TWINS, domain=BITS, transcript=transcript)
    smaller = replace(PriView(), family_cells=4)
    assert run(smaller, None, domain=BITS, transcript=transcript.rewind()).draws == ()


# Any rows, any ε.


@pytest.mark.parametrize("people_in", FEW)
@pytest.mark.parametrize("epsilon", ["0.001", "1000"])
@every_model
def test_whoever_the_people_are_the_codes_are_declared_ones(
    model: PriView, epsilon: str, people_in: str
) -> None:
    table = table_of(run(model, FEW[people_in], epsilon=Fraction(epsilon)))
    assert ((table.codes >= 0) & (table.codes < TOWN.shape(TOWN.discrete))).all()
    assert {len(column) for column in table.tables()["codes"].values()} == {len(table.codes)}


def test_one_attribute_one_level_and_a_declared_number_of_rows_are_all_right() -> None:
    table = table_of(run(PriView(synthetic_rows=7), (), domain=levels(a=1)))
    assert table.codes.tolist() == [[0]] * 7
    assert table_of(run(PriView(), (), domain=levels(a=1, b=2))).codes.shape[1] == 2


@pytest.mark.chain
def test_a_wide_table_is_released_at_a_tiny_epsilon() -> None:
    domain, counter = wide(40, 1000)
    table = table_of(run(PriView(), counter, domain=domain, epsilon=Fraction(1, 1000)))
    assert table.codes.shape[1] == 40

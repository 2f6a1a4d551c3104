"""PriView: its views are public, they hold every pair, and rows agree with them."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dp_pipeline.config.errors import BudgetExceeded, DeclarationError
from dp_pipeline.models.tables import priview
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline_tests.models.contract import run
from dp_pipeline_tests.models.discrete import levels
from dp_pipeline_tests.models.tables import BITS, MIXED, TWINS, table_of
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


def test_eight_bits_are_one_view_and_sixteen_are_six() -> None:
    for many, views in ((8, 1), (9, 3), (16, 6)):
        bits = levels(**{f"x{index}": 2 for index in range(many)})
        assert len(PriView().views(bits)) == views
        assert {len(view) for view in PriView(view_size=4).views(bits)} <= {2, 3, 4}


def test_a_view_that_passes_the_cap_is_refused_by_name() -> None:
    PriView(view_size=3).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 500 cells, but that of b, c, d has 600"):
        PriView(view_size=3, clique_cells=500).check(MIXED)
    with pytest.raises(DeclarationError, match=r"at most 100 cells, but that of [abc], d has"):
        PriView(clique_cells=100).check(MIXED)


def test_without_noise_pairs_of_rows_are_those_of_the_people() -> None:
    for model in MODELS.values():
        table = table_of(run(model, TWINS, domain=BITS, epsilon=SILENT))
        for pair in (("a", "b"), ("c", "d"), ("e", "f")):
            assert table.counts(pair).tolist() == [[20, 0], [0, 20]]


def test_without_noise_an_answer_is_what_the_views_leave() -> None:
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

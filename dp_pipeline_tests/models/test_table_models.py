"""What every model of a table takes, and what the contract says of settings of them."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import BudgetExceeded, Damaged, DeclarationError, OtherQuestion
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.scores import UNIT, DependenceScore, Independence
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Model, PrivacyGuarantee
from dp_pipeline.models.tables import jtree, privbayes
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.base import MOST_ESTIMATED_ROWS, TableModel
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.jtree import JTree
from dp_pipeline.models.tables.mst import Mst
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.models.tables.privbayes import PrivBayes, grow_network
from dp_pipeline.models.tables.privhd import PrivHd, draw_network
from dp_pipeline.models.tables.priview import PriView
from dp_pipeline.models.tables.threshold_filter import ThresholdFilter
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import (
    built,
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    claimed,
    fuzz_loss,
    run,
)
from dp_pipeline_tests.models.mutants import (
    broken,
    half_the_noise,
    own_reach,
    question_too_many,
    smaller_budget,
    unpaid,
)
from dp_pipeline_tests.models.tables import (
    BITS,
    DELTA,
    FEW,
    TWINS,
    counter_of,
    dependent_rows,
    domain_of,
    every_delta,
    levels,
    table_of,
    wide,
)
from dp_pipeline_tests.populations import AWKWARD, TEN_PEOPLE, TOWN, LoopCounter

NAMES = [name for name, model in MODELS.items() if issubclass(model, TableModel)]
every_model = pytest.mark.parametrize("name", NAMES)
SHAPES: dict[str, Sequence[int]] = {
    "one attribute": (3,),
    "one attribute of one level": (1,),
    "one level each": (1, 1, 1),
    "two levels each": (2, 2, 2, 2, 2),
    "one level among others": (4, 1, 3),
    "many levels": (40, 2, 60, 3),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)

DEFAULTS = [(name, None) for name in NAMES]
DEFAULTS += [(name, DELTA) for name in NAMES if MODELS[name].accounts_in_rho]
every_default = pytest.mark.parametrize(
    ("name", "delta"), DEFAULTS, ids=[f"{n}, {'rho' if d else 'epsilon'}" for n, d in DEFAULTS]
)


def fitted(model, sizes, rows, *, epsilon, delta) -> SyntheticTable:
    """A valid release of dependent rows, within its budget, of no more cells than was foreseen."""
    domain = domain_of(sizes)
    model.check(domain)
    counter = counter_of(domain, dependent_rows(sizes, rows))
    done = run(model, counter, epsilon=Fraction(epsilon), domain=domain, delta=delta)
    spent = sum(spend.epsilon for spend in done.spends if spend.currency == done.currency.name)
    assert spent <= claimed(model, Fraction(epsilon), delta, domain).amount
    check_valid(model, done.released, domain=domain)
    assert sum(marginal.table.size for marginal in done.released.measured) <= model.most_cells(
        domain
    )
    return done.released


@pytest.mark.chain
@every_default
@every_shape
@pytest.mark.parametrize(
    ("rows", "epsilons"), [(0, ["2"]), (1, ["0.05"]), (300, ["0.05", "2", "20"])]
)
def test_any_rows_of_any_levels_give_a_valid_table(name, delta, shape, rows, epsilons):
    for epsilon in epsilons:
        fitted(built(MODELS[name]), SHAPES[shape], rows, epsilon=epsilon, delta=delta)


@every_default
def test_a_tiny_epsilon_gives_a_valid_table_of_the_rows_declared(name, delta):
    # An ε below 0.001 or so buys no nano-ρ at this δ, and is refused before it is planned with.
    epsilon = "0.000001" if delta is None else "0.001"
    model = built(MODELS[name], synthetic_rows=100)
    assert len(fitted(model, (3, 4, 2), 50, epsilon=epsilon, delta=delta).codes) == 100


@every_default
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_as_many_rows_are_drawn_as_were_declared(name, delta, rows):
    model = built(MODELS[name], synthetic_rows=rows)
    released = run(model, epsilon=Fraction(1), delta=delta).released
    assert len(released.codes) == rows
    check_valid(model, released)


def test_the_estimate_of_rows_is_rounded_and_capped() -> None:
    model = Independent()
    drawn = [model.rows_to_draw(estimate) for estimate in (-5.0, 0.4, 7.6, 1e30)]
    assert drawn == [0, 0, 8, MOST_ESTIMATED_ROWS]
    assert Independent(synthetic_rows=10**9).rows_to_draw(3.0) == 10**9


def test_an_estimate_of_noise_draws_no_more_than_the_cap() -> None:
    model = Independent(attributes=("smokes",))
    # Of three totals of scale 10^9 and two cells each, one is above the cap.
    drawn = [
        run(model, epsilon=Fraction(1, 10**9), noise=SeededNoise(seed)).released
        for seed in range(3)
    ]
    assert max(int(table.measured[0].table.sum()) for table in drawn) > MOST_ESTIMATED_ROWS
    assert max(len(table.codes) for table in drawn) == MOST_ESTIMATED_ROWS


@every_default
def test_at_a_large_epsilon_as_many_rows_are_drawn_as_there_are(name, delta):
    # ρ = ε²/2 about: an ε of 900 leaves next to no noise in either currency.
    done = run(built(MODELS[name]), TEN_PEOPLE, epsilon=Fraction(900), delta=delta)
    assert abs(len(done.released.codes) - len(TEN_PEOPLE)) <= 1


def has_cap(name: str) -> bool:
    return any(field.name == "clique_cells" for field in fields(MODELS[name]))


# The views of priview hold every pair, so a cap below one of them is refused.
CAPPED = [
    (built(MODELS[name], clique_cells=8), delta)
    for name, delta in DEFAULTS
    if has_cap(name) and name != "priview"
]
CAPPED += [(PrivHd(variant=variant, clique_cells=8), None) for variant in ("published", "peeling")]
capped = pytest.mark.parametrize(("model", "delta"), CAPPED)


@capped
@pytest.mark.parametrize("epsilon", ["0.05", "20"])
def test_a_small_cap_is_kept_and_most_cells_says_so(model, delta, epsilon: str) -> None:
    sizes = (4, 3, 2, 4, 2)
    released = fitted(model, sizes, 2000, epsilon=epsilon, delta=delta)
    assert max(domain_of(sizes).cell_count(clique) for clique in released.cliques) <= 8
    assert [child for _, child in released.links] == list(range(1, len(released.cliques)))
    JunctionTree(released.cliques, released.links).require_running_intersection()
    for marginal in released.measured:
        assert any({*marginal.attributes} <= {*clique} for clique in released.cliques)


@capped
def test_a_cap_below_every_pair_leaves_tables_of_one_attribute(model, delta):
    small = replace(model, clique_cells=4)
    released = fitted(small, (4, 3, 4, 3), 2000, epsilon="20", delta=delta)
    assert {len(clique) for clique in released.cliques} == {1}


@every_model
def test_declarations_that_do_not_fit_are_refused_in_one_line(name: str) -> None:
    twice, numbers = ("colour", "colour"), Domain(TOWN.attributes[:1])
    without_cells = "has bounds but no cells: declare bins or edges for it"
    refused = [
        (built(MODELS[name], attributes=twice), TOWN, "each attribute once, but colour is repeat"),
        (built(MODELS[name], attributes=("income",)), TOWN, "The data set has no attribute"),
        (built(MODELS[name], attributes=("x",)), TOWN, without_cells),
        (built(MODELS[name]), numbers, "needs attributes with levels, bins or edges"),
    ]
    if has_cap(name):
        small = built(MODELS[name], clique_cells=4)
        refused.append((small, domain_of((3, 5)), "at most 4 cells, but x1 has 5"))
    for model, domain, words in refused:
        with pytest.raises(DeclarationError, match=words) as error:
            model.check(domain)
        assert len(str(error.value).splitlines()) == 1


@every_model
def test_only_the_named_attributes_are_released(name: str) -> None:
    model = built(MODELS[name], attributes=("smokes", "colour"))
    released = run(model, epsilon=Fraction(10)).released
    assert released.attributes == ("smokes", "colour")
    for release in released.measured:
        assert set(release.attributes) <= {"smokes", "colour"}


def every_release() -> Iterator[str]:
    for name, delta in DEFAULTS:
        table = fitted(built(MODELS[name]), (3, 3, 2, 2, 4, 3), 500, epsilon="1", delta=delta)
        requested = [marginal.attributes for marginal in table.measured]
        digest = hashlib.sha256(table.codes.tobytes()).hexdigest()
        yield f"{name} {delta} {requested} {table.cliques} {table.links} {digest}"


@pytest.mark.chain
def test_another_process_asks_and_gives_the_same() -> None:
    # What was stored is replayed in another process, where sets of texts come in another order.
    code = f"import {__name__} as here; print(*here.every_release(), sep='\\n')"
    run_there = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=300)
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    there = run_there([sys.executable, "-c", code], env=env).stdout.splitlines()
    assert len(there) == len(DEFAULTS)
    assert there == [*every_release()]


@pytest.mark.parametrize(("name", "delta"), [case for case in DEFAULTS if case[0] != "independent"])
def test_at_a_large_epsilon_rows_have_the_true_dependence(name, delta):
    sizes = (3, 3, 3)
    released = fitted(built(MODELS[name]), sizes, 5000, epsilon="200", delta=delta)
    exact = np.zeros((3, 3))
    np.add.at(exact, tuple(dependent_rows(sizes, 5000)[:, :2].T), 1 / 5000)
    assert np.abs(released.probabilities(("x0", "x1")) - exact).sum() < 0.05


SETTINGS: dict[str, Model] = {
    "aim_like, one round": AimLike(rounds=1),
    "aim_like, pairs": AimLike(candidates=1),
    "aim_like, few fit": AimLike(clique_cells=8, rounds=2),
    "aim_like, none fits": AimLike(clique_cells=5),
    "mst, all pairs": Mst(),
    "mst, few pairs fit": Mst(clique_cells=6),
    "mst, none fits": Mst(clique_cells=4),
    "jtree, rows paid": JTree(),
    "jtree, rows declared": JTree(nominal_rows=300),
    "jtree, nothing fits": JTree(nominal_rows=1),
    "jtree, one table": JTree(nominal_rows=10**9, edges=Fraction(9)),
    "jtree, no edges": JTree(edges=Fraction(0)),
    "privbayes, rows paid": PrivBayes(),
    "privbayes, rows declared": PrivBayes(nominal_rows=300),
    "privbayes, no pair fits": PrivBayes(nominal_rows=1),
    "privbayes, all in one table": PrivBayes(nominal_rows=10**9),
    "privbayes, few candidates": PrivBayes(nominal_rows=300, candidates=3, negatives="clipped"),
    "privhd, tuned": PrivHd(),
    "privhd, published": PrivHd(variant="published"),
    "privhd, composed": PrivHd(variant="composed"),
    "privhd, peeling": PrivHd(variant="peeling"),
    "one_shot": OneShot(),
    "priview, by cells": PriView(),
    "priview, small views": PriView(view_cells=8),
    "priview, pairs": PriView(view_size=2),
    "priview, three at a time": PriView(view_size=3, family_cells=8),
    "threshold_filter, a hundred": ThresholdFilter(),
    "threshold_filter, one": ThresholdFilter(empty_cells=1),
}
CASES = {
    f"{name}{' in rho' if delta else ''}": (model, delta)
    for name, model in SETTINGS.items()
    for delta in (None, Fraction(1, 10**9))
    if delta is None or model.accounts_in_rho
}
every_case = pytest.mark.parametrize(("model", "delta"), CASES.values(), ids=CASES.keys())
every_domain = pytest.mark.parametrize(
    ("domain", "rows"),
    [(BITS, TWINS), (TOWN, TEN_PEOPLE), (levels(a=3), ()), (levels(a=40, b=40), ())],
    ids=["bits", "town", "one attribute", "no pair fits"],
)
BIT_ROWS = list(product("01", repeat=6))


@every_case
@every_domain
@pytest.mark.parametrize("distance", [1, 3])
def test_the_scales_drawn_prove_what_was_asked(model, delta, domain, rows, distance):
    for epsilon in (Fraction("0.1"), Fraction(5, 7)):
        check_budget(model, rows, epsilon=epsilon, distance=distance, domain=domain, delta=delta)


@every_case
@settings(max_examples=6)
@given(
    rows=st.lists(st.sampled_from(BIT_ROWS), min_size=1, max_size=12),
    person=st.sampled_from(BIT_ROWS),
    seed=st.integers(0, 1000),
)
def test_along_any_answers_a_person_loses_no_more_than_claimed(model, delta, rows, person, seed):
    how = {"epsilon": Fraction(1), "domain": BITS, "delta": delta}
    loss = check_loss(model, rows, (person,) * 2, distance=2, seed=seed, **how)
    if isinstance(model, PriView | ThresholdFilter):
        assert loss == claimed(model, **how).amount, "no share of ε protects nobody"


@every_case
@every_domain
def test_stored_answers_replayed_over_nobody_give_the_same_bytes(model, delta, domain, rows):
    check_replay(model, rows, domain=domain, elsewhere=[(), None], delta=delta)


@every_case
@pytest.mark.parametrize("people_in", FEW)
def test_whoever_the_people_are_the_table_is_a_valid_one(model, delta, people_in):
    for epsilon in (Fraction(1, 1000), Fraction(1000)):
        check_valid(model, run(model, FEW[people_in], epsilon=epsilon, delta=delta).released)


EXACT = ("privbayes, rows paid", "privhd", "priview", "threshold_filter")


@pytest.mark.parametrize("name", [name for name in SETTINGS if name.startswith(EXACT)])
def test_without_noise_rows_are_the_people(name: str) -> None:
    table = table_of(run(SETTINGS[name], TWINS, domain=BITS, epsilon=Fraction(10**4)))
    # Views say what pairs have, and not what all six attributes have together.
    for names in (("a", "b"), ("c", "d"), ("e", "f"), BITS.names)[: 3 if "priview" in name else 4]:
        (exact,) = LoopCounter(TWINS, BITS).count([names])
        assert table.counts(names).tolist() == exact.open_at_the_gate().tolist()


@pytest.mark.parametrize(
    ("model", "delta"), [case for case in CASES.values() if isinstance(case[0], TableModel)]
)
def test_one_level_and_a_declared_number_of_rows_are_all_right(model, delta):
    for domain in (levels(a=1), levels(a=1, b=2)):
        seven = replace(model, synthetic_rows=7)
        table = table_of(run(seven, (), domain=domain, delta=delta))
        assert len(table.codes) == 7
        check_valid(model, table, domain=domain)


@pytest.mark.parametrize(
    ("mutant", "refusal"),
    [
        (broken(AimLike, smaller_budget)(), AssertionError),
        (broken(Mst, question_too_many)(), BudgetExceeded),
    ],
    ids=["a smaller budget", "a question too many"],
)
def test_a_budget_that_is_not_the_claim_is_caught(mutant, refusal):
    with pytest.raises(refusal):
        check_budget(mutant, TWINS, epsilon=Fraction(1), distance=1, domain=BITS)


def free_draws(*arguments: object, **options: object) -> tuple:
    return draw_network(*arguments, **options)[0], 0  # type: ignore[arg-type]


def free_choices(*arguments: object, **options: object) -> tuple:
    return grow_network(*arguments, **options)[0], 0  # type: ignore[arg-type]


class Miscounted(tuple):
    def __len__(self) -> int:
        return super().__len__() - 1


THREE_VIEWS = Miscounted((("a", "b"), ("b", "c"), ("a", "c")))


@pytest.mark.parametrize(
    ("model", "place", "wrong"),
    [
        (JTree(nominal_rows=300), (jtree, "draw_network"), free_draws),
        (PrivBayes(nominal_rows=300), (privbayes, "grow_network"), free_choices),
        (PriView(), (PriView, "views"), lambda *_: THREE_VIEWS),
        (
            PrivHd(variant="published"),
            (PrivHd, "guarantee"),
            lambda _, epsilon, *__: PrivacyGuarantee("dp", epsilon),
        ),
    ],
    ids=["unpaid draws", "unpaid choices", "a view too many", "a nominal ε"],
)
def test_what_is_not_paid_for_exceeds_the_budget(model, place, wrong, monkeypatch):
    monkeypatch.setattr(*place, wrong)
    with pytest.raises(BudgetExceeded):
        run(model, TWINS, domain=BITS)


WIDE: dict[str, TableModel] = {
    "mst": Mst(),
    "jtree": JTree(),
    "privbayes": PrivBayes(candidates=20),
    "privhd": PrivHd(),
    "aim_like": AimLike(rounds=1),
    "priview": PriView(),
}
SLOW = ("aim_like", "priview")


@pytest.mark.parametrize(
    "name",
    [pytest.param(model, marks=[pytest.mark.chain] if model in SLOW else []) for model in WIDE],
)
def test_forty_attributes_are_released_at_a_tiny_epsilon(name: str) -> None:
    domain, counter = wide(40, 1000)
    for epsilon in (Fraction(1, 1000), Fraction(10))[: 1 if name in SLOW else 2]:
        table = table_of(run(WIDE[name], counter, domain=domain, epsilon=epsilon))
        assert table.codes.shape[1] == 40
        assert sum(marginal.table.size for marginal in table.measured) <= WIDE[name].most_cells(
            domain
        )


def unpaid_scores(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> Any:
    """Look at all scores once more, past the accountant."""
    pairs: list[tuple[str, ...]] = list(combinations(curator.domain.discrete, 2))
    session = unpaid(curator).open_scores(dict.fromkeys(pairs, Independence()))
    session.measure_all(amount=curator.accountant.remaining * 10)
    return sound(curator, epsilon)


def exact_scores(curator: Curator, epsilon: Fraction, sound: Callable[..., Any]) -> SyntheticTable:
    """Draw as many rows as the first score says, without noise."""
    names = curator.domain.discrete
    session = curator.open_scores(
        {names[:2]: DependenceScore(np.zeros(curator.domain.shape(names[:2]), np.int64))}
    )
    exact = session._exact(curator._executor.counter).open_at_the_gate()
    released = sound(curator, epsilon)
    return replace(released, codes=np.repeat(released.codes[:1], int(exact[0]) // UNIT, axis=0))


@every_delta
@pytest.mark.parametrize(
    ("wrong", "distance"),
    [(half_the_noise, 1), (own_reach, 3), (unpaid_scores, 1), (exact_scores, 1)],
)
def test_a_model_that_breaks_its_promise_is_caught(wrong, distance, delta):
    model, how = broken(OneShot, wrong)(), {"distance": distance, "delta": delta}
    with pytest.raises((AssertionError, Damaged, OtherQuestion)):
        check_budget(model, epsilon=Fraction(1), **how)
        fuzz_loss(model, examples=12, **how)
        check_replay(model, elsewhere=[AWKWARD["two people"]], delta=delta)

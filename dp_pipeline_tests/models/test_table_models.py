"""What every model of a table takes: any rows, any levels, any ε, and it says what it needs."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import MOST_ESTIMATED_ROWS, TableModel
from dp_pipeline.models.tables.independent import Independent
from dp_pipeline.models.tables.privhd import PrivHd
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import built, check_valid, claimed, run
from dp_pipeline_tests.models.tables import DELTA, counter_of, dependent_rows, domain_of
from dp_pipeline_tests.populations import TEN_PEOPLE, TOWN

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

CASES = [(name, None) for name in NAMES]
CASES += [(name, DELTA) for name in NAMES if MODELS[name].accounts_in_rho]
every_case = pytest.mark.parametrize(
    ("name", "delta"), CASES, ids=[f"{n}, {'rho' if d else 'epsilon'}" for n, d in CASES]
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
    assert sum(one.table.size for one in done.released.measured) <= model.most_cells(domain)
    return done.released


@pytest.mark.chain
@every_case
@every_shape
@pytest.mark.parametrize(
    ("rows", "epsilons"), [(0, ["2"]), (1, ["0.05"]), (300, ["0.05", "2", "20"])]
)
def test_any_rows_of_any_levels_give_a_valid_table(name, delta, shape, rows, epsilons):
    for epsilon in epsilons:
        fitted(built(MODELS[name]), SHAPES[shape], rows, epsilon=epsilon, delta=delta)


@every_case
def test_a_tiny_epsilon_gives_a_valid_table_of_the_rows_declared(name, delta):
    # An ε below 0.001 or so buys no nano-ρ at this δ, and is refused before it is planned with.
    epsilon = "0.000001" if delta is None else "0.001"
    model = built(MODELS[name], synthetic_rows=100)
    assert len(fitted(model, (3, 4, 2), 50, epsilon=epsilon, delta=delta).codes) == 100


@every_case
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_as_many_rows_are_drawn_as_were_declared(name, delta, rows):
    model = built(MODELS[name], synthetic_rows=rows)
    released = run(model, epsilon=Fraction(1), delta=delta).released
    assert len(released.codes) == rows
    check_valid(model, released)


def test_the_estimate_of_rows_is_rounded_and_capped() -> None:
    model = Independent()
    drawn = [model.rows_to_draw(one) for one in (-5.0, 0.4, 7.6, 1e30)]
    assert drawn == [0, 0, 8, MOST_ESTIMATED_ROWS]
    assert Independent(synthetic_rows=10**9).rows_to_draw(3.0) == 10**9


def test_an_estimate_of_noise_draws_no_more_than_the_cap() -> None:
    model = Independent(attributes=("smokes",))
    # Of three totals of scale 10^9 and two cells each, one is above the cap.
    drawn = [
        run(model, epsilon=Fraction(1, 10**9), noise=SeededNoise(seed)).released
        for seed in range(3)
    ]
    assert max(int(one.measured[0].table.sum()) for one in drawn) > MOST_ESTIMATED_ROWS
    assert max(len(one.codes) for one in drawn) == MOST_ESTIMATED_ROWS


@every_case
def test_at_a_large_epsilon_as_many_rows_are_drawn_as_there_are(name, delta):
    # ρ = ε²/2 about: an ε of 900 leaves next to no noise in either currency.
    done = run(built(MODELS[name]), TEN_PEOPLE, epsilon=Fraction(900), delta=delta)
    assert abs(len(done.released.codes) - len(TEN_PEOPLE)) <= 1


def has_cap(name: str) -> bool:
    """Whether the cells of a clique are bounded by a parameter."""
    return any(one.name == "clique_cells" for one in fields(MODELS[name]))


# The views of priview hold every pair, so a cap below one of them is refused.
CAPPED = [
    (built(MODELS[name], clique_cells=8), delta)
    for name, delta in CASES
    if has_cap(name) and name != "priview"
]
CAPPED += [(PrivHd(variant=one, clique_cells=8), None) for one in ("published", "peeling")]
capped = pytest.mark.parametrize(("model", "delta"), CAPPED)


@capped
@pytest.mark.parametrize("epsilon", ["0.05", "20"])
def test_a_small_cap_is_kept_and_most_cells_says_so(model, delta, epsilon: str) -> None:
    sizes = (4, 3, 2, 4, 2)
    released = fitted(model, sizes, 2000, epsilon=epsilon, delta=delta)
    assert max(domain_of(sizes).cell_count(clique) for clique in released.cliques) <= 8
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
    """What each model asks and gives, in one line."""
    for name, delta in CASES:
        table = fitted(built(MODELS[name]), (3, 3, 2, 2, 4, 3), 500, epsilon="1", delta=delta)
        asked = [one.attributes for one in table.measured]
        digest = hashlib.sha256(table.codes.tobytes()).hexdigest()
        yield f"{name} {delta} {asked} {table.cliques} {table.links} {digest}"


@pytest.mark.chain
def test_another_process_asks_and_gives_the_same() -> None:
    # What was stored is replayed in another process, where sets of texts come in another order.
    code = f"import {__name__} as here; print(*here.every_release(), sep='\\n')"
    run_there = partial(subprocess.run, check=True, capture_output=True, text=True, timeout=300)
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    there = run_there([sys.executable, "-c", code], env=env).stdout.splitlines()
    assert len(there) == len(CASES)
    assert there == [*every_release()]


@pytest.mark.parametrize(("name", "delta"), [one for one in CASES if one[0] != "independent"])
def test_at_a_large_epsilon_rows_have_the_true_dependence(name, delta):
    sizes = (3, 3, 3)
    released = fitted(built(MODELS[name]), sizes, 5000, epsilon="200", delta=delta)
    exact = np.zeros((3, 3))
    np.add.at(exact, tuple(dependent_rows(sizes, 5000)[:, :2].T), 1 / 5000)
    assert np.abs(released.probabilities(("x0", "x1")) - exact).sum() < 0.05

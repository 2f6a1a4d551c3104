"""Constraints in models: no row breaks one, nothing is spent on what they say, others refuse."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dp_pipeline.config.constraint_parser import constrained_domain
from dp_pipeline.config.constraints import AllowedCells
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.models.contract import built, check_budget, check_loss, check_replay, run
from dp_pipeline_tests.models.tables import levels, table_of

SAID = {
    "never": [{"a": 0, "c": [2, 3]}, {"d": [*range(6, 12)], "f": 1}],
    "only": [{"b": 0, "c": [0, 1, 2]}, {"b": [1, 2]}],
    "depends": {"a": {"e": {"0": "2", "1": "0", "2": "1"}}, "d": {"b": {
        str(at): str(at // 4) for at in range(12)
    }}},
}  # fmt: skip
RULED = constrained_domain(SAID, levels(a=3, b=3, c=4, d=12, e=3, f=2))
"""e is a in other words, d decides b, and four sentences more."""

TABLES = {name: kind for name, kind in MODELS.items() if issubclass(kind, TableModel)}
KEEPING = {name: kind for name, kind in TABLES.items() if kind.keeps_constraints}
REFUSING = {name: kind for name, kind in TABLES.items() if not kind.keeps_constraints}
every_model = pytest.mark.parametrize("name", KEEPING)


def holds(codes: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows keep every constraint, from the declaration alone."""
    is_kept = np.ones(len(codes["a"]), dtype=np.bool_)
    for constraint in RULED.constraints:
        names = constraint.attributes
        is_kept &= AllowedCells(names, constraint.mask(RULED.shape(names))).holds(codes)
    return is_kept


def codes_of(table: SyntheticTable) -> dict[str, np.ndarray]:
    return dict(zip(table.attributes, table.codes.T, strict=True))


def keeping(rows: int) -> dict[str, np.ndarray]:
    """Codes of people who keep the constraints, of one hidden number."""
    cells = np.array(list(product(*map(range, RULED.shape(RULED.names)))))
    cells = cells[holds(dict(zip(RULED.names, cells.T, strict=True)))]
    at = np.random.default_rng(1).beta(1, 3, rows) * len(cells)
    chosen = cells[at.astype(np.int64)].T.astype(np.uint8)
    return dict(zip(RULED.names, chosen, strict=True))


def people(rows: int) -> MemoryCounter:
    """The same people, for a curator to ask about."""
    return MemoryCounter(RULED, coordinates={}, codes=keeping(rows), rows=rows)


@every_model
@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(2), Fraction(50)])
@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_every_row_keeps_every_constraint(name: str, epsilon: Fraction, rows: int) -> None:
    model = built(KEEPING[name], synthetic_rows=2000)
    table = table_of(run(model, people(rows), domain=RULED, epsilon=epsilon))
    assert len(table.codes) == 2000
    assert table.attributes == RULED.names
    assert holds(codes_of(table)).all()
    assert {name for clique in table.cliques for name in clique} == {*RULED.names}


def test_a_model_that_groups_what_differs_would_break_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant that the test above catches: levels of several kinds in one group."""
    monkeypatch.setattr(StructuralZeros, "kinds", lambda *_: None)
    model = built(MODELS["mst"], synthetic_rows=2000)
    table = table_of(run(model, people(3000), domain=RULED, epsilon=Fraction(1, 20)))
    assert not holds(codes_of(table)).all()


@every_model
def test_without_noise_constrained_pairs_are_those_of_rows(name: str) -> None:
    codes = keeping(3000)
    model = built(KEEPING[name], synthetic_rows=3000)
    table = table_of(run(model, people(3000), domain=RULED, epsilon=Fraction(10**4)))
    for left, right in ("a", "e"), ("b", "d"):
        exact = np.zeros(RULED.shape((left, right)))
        np.add.at(exact, (codes[left], codes[right]), 1 / 3000)
        assert np.abs(table.probabilities((left, right)) - exact).sum() / 2 < 0.02


@every_model
def test_an_attribute_in_other_words_is_not_measured(name: str) -> None:
    table = table_of(run(built(KEEPING[name]), people(500), domain=RULED))
    assert "e" not in {n for one in table.measured for n in one.attributes}
    assert ("a", "e") in table.cliques


FEW_PEOPLE: tuple[tuple[tuple[str, ...], ...], ...] = (
    (),
    tuple(
        (str(a), str(d // 4), "1", str(d), str((2, 0, 1)[a]), "0")
        for a, d in ((0, 0), (1, 3), (2, 5), (1, 4), (0, 1), (2, 2), (1, 0), (1, 7), (2, 9), (0, 3))
    ),
)


@every_model
def test_the_contract_holds_of_constrained_attributes(name):
    model, how = built(KEEPING[name]), {"epsilon": Fraction(1), "domain": RULED}
    places = ((0, 0, 0, 0, 2, 0), (2, 1, 3, 5, 1, 1))
    for distance, rows in product((1, 3), FEW_PEOPLE):
        check_budget(model, rows, distance=distance, places=places, **how)
    people, person = FEW_PEOPLE[1], (("1", "1", "1", "5", "0", "1"),)
    for seed in range(3):
        check_loss(model, people, person, distance=1, seed=seed, **how)
    check_replay(model, people, elsewhere=((), None), domain=RULED)


def test_fewer_attributes_keep_what_is_said_of_them_alone() -> None:
    model = replace(built(MODELS["one_shot"], synthetic_rows=500), attributes=("d", "f", "e"))
    table = table_of(run(model, people(500), domain=RULED))
    assert table.attributes == ("d", "f", "e")
    codes = codes_of(table)
    assert not ((codes["d"] >= 6) & (codes["f"] == 1)).any()


@pytest.mark.parametrize("name", REFUSING)
def test_other_models_refuse_by_name(name: str) -> None:
    model = built(REFUSING[name])
    with pytest.raises(DeclarationError, match=f"{type(model).__name__} does not keep `constr"):
        TableModel.check(model, RULED)


def test_constraints_that_contradict_each_other_are_refused() -> None:
    """b is a, c is b, and c is not a."""
    said = {
        "only": [[{x: level, y: level} for level in (0, 1)] for x, y in (("a", "b"), ("b", "c"))],
        "never": [{"a": level, "c": level} for level in (0, 1)],
    }
    plain = levels(a=2, b=2, c=2)
    odd = constrained_domain(said, plain)
    with pytest.raises(DeclarationError, match="`constraints` that some row can keep, but these"):
        MODELS["one_shot"]().check(odd)


def test_constraints_that_need_too_large_cliques_are_refused() -> None:
    plain = levels(a=60, b=60, c=60)
    never = [{x: 0, y: 1} for x, y in (("a", "b"), ("b", "c"), ("a", "c"))]
    ruled = constrained_domain({"never": never}, plain)
    with pytest.raises(DeclarationError, match="but those of a, b, c span 216000: declare"):
        MODELS["one_shot"]().check(ruled)

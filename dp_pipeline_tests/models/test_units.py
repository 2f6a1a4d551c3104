"""Constraints and units with parts: no row breaks one, and each unit is paid."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dp_pipeline.answers.units import OpenUnits
from dp_pipeline.config.constraint_parser import constrained_domain
from dp_pipeline.config.constraints import AllowedCells, Constraint
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts
from dp_pipeline.config.encoding import FloatArray, IntArray, Levels, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parts_parser import empty_unit_constraints
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.inference.likely_pairs import likely_pairs
from dp_pipeline.inference.pair_swaps import PairGoal, SyntheticUnits, swap_parts
from dp_pipeline.inference.structural_zeros import StructuralZeros
from dp_pipeline.inference.table_growth import TableGrowth
from dp_pipeline.models import MODELS
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.units import units_of_parts
from dp_pipeline.results.synthetic_table import SyntheticTable, first_parts
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import (
    Run,
    built,
    check_budget,
    check_loss,
    check_replay,
    check_valid,
    privacy_loss,
    run,
)
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
    assert "e" not in {n for marginal in table.measured for n in marginal.attributes}
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
        check_valid(model, run(model, rows, distance=distance, **how).released, domain=RULED)
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
    constraints = {
        "only": [[{x: level, y: level} for level in (0, 1)] for x, y in (("a", "b"), ("b", "c"))],
        "never": [{"a": level, "c": level} for level in (0, 1)],
    }
    plain = levels(a=2, b=2, c=2)
    odd = constrained_domain(constraints, plain)
    with pytest.raises(DeclarationError, match="`constraints` that some row can keep, but these"):
        MODELS["one_shot"]().check(odd)


def test_constraints_that_need_too_large_cliques_are_refused() -> None:
    plain = levels(a=60, b=60, c=60)
    never = [{x: 0, y: 1} for x, y in (("a", "b"), ("b", "c"), ("a", "c"))]
    ruled = constrained_domain({"never": never}, plain)
    with pytest.raises(DeclarationError, match="but those of a, b, c span 216000: declare"):
        MODELS["one_shot"]().check(ruled)


MOST = 3
Row = tuple[int, int, int, int]
"""Unit, region, age and sex of one part."""


def attribute(name: str, size: int, *, least: int = 0, nullable: bool = False) -> Attribute:
    cells = Levels(tuple(map(str, range(least, least + size))))
    return Attribute(name, name, "keep", cells=cells, nullable=nullable)


def domain(*constraints: Constraint, key: str = "") -> Domain:
    parts = Parts("persons", ("age", "sex"), MOST, key=key)
    of_parts = [
        attribute(name, size, nullable=bool(key)) for name, size in (("age", 3), ("sex", 2))
    ]
    region = attribute("region", 2, nullable=True)
    size = attribute(SIZE, MOST + 1 - parts.fewest, least=parts.fewest)
    constraints += empty_unit_constraints(parts, of_parts)
    return Domain((region, size, *of_parts), constraints, parts)


def couples(many: int) -> list[Row]:
    """Couples of two sexes and one age, and as many single persons; one region each."""
    rows: list[Row] = []
    for unit in range(many):
        age = unit % 3
        rows += [(2 * unit, 0, age, 0), (2 * unit, 0, age, 1)]
        rows.append((2 * unit + 1, 1, (unit // 2) % 3, unit % 2))
    return rows


def fit(rows, declared, epsilon, noise=None, model=None) -> SyntheticTable:
    units, *codes = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    of_rows = dict(zip(("region", "age", "sex"), codes, strict=True))
    # All is missing of a row that stands for a unit without parts.
    is_empty = None if declared.parts.fewest else of_rows["age"] == declared["age"].missing_code
    columns = units_of_parts(declared, of_rows, units, is_empty=is_empty)
    coded = {name: column for name, (column, _) in columns.items()}
    units = declared.parts.of_units(declared)
    counter = MemoryCounter(units, coordinates={}, codes=coded, rows=len(coded[SIZE]))
    given = {"domain": declared, "distance": UNIT_WEIGHT, "epsilon": epsilon, "noise": noise}
    curator = curator_over(PartsCounter(counter, declared), **given)
    model = model or OneShot()
    model.check(declared)
    table = model.fit(curator, epsilon=epsilon, rng=np.random.default_rng(0))
    curator.accountant.require_all_spent()
    if len(table.codes):
        OpenUnits(table.tables()).count("size >= 1")
    return table


def pair_shares(table: SyntheticTable, name: str) -> IntArray:
    """Share of pairs of parts of one unit with equal codes, by unit of two parts."""
    codes = codes_of(table)
    of_two = codes[name][codes[SIZE] == 1].reshape(-1, 2)
    return np.asarray((of_two[:, 0] == of_two[:, 1]).mean())


def test_pairs_of_parts_of_one_unit_are_those_of_the_rows() -> None:
    table = fit(couples(3000), domain(), Fraction(4))
    assert pair_shares(table, "age") > 0.85
    assert pair_shares(table, "sex") < 0.15
    sizes = codes_of(table)[SIZE] + 1
    assert abs(len(first_parts(sizes)) - 6000) < 100


def test_tables_of_units_and_parts_refer_to_each_other() -> None:
    tables = fit(couples(50), domain(), Fraction(4)).tables()
    units, parts = tables["units"], tables["synthetic"]
    assert {"unit", "region", SIZE} == {*units}
    assert {"unit", "part", "age", "sex"} == {*parts}
    owners, counts = np.unique(parts["unit"], return_counts=True)
    assert owners.tolist() == units["unit"].tolist()
    assert counts.tolist() == units[SIZE].tolist()
    assert parts["part"].tolist() == [part + 1 for count in counts for part in range(count)]


def test_at_most_one_part_of_a_unit_has_certain_levels() -> None:
    plain = domain()
    declared = replace(plain, parts=replace(plain.parts, single=(("sex", (0,)),)))
    two_of_them = [(10**6 + unit, 1, 2, 0) for unit in range(900) for _ in range(2)]
    rows = couples(900) + two_of_them
    units = [fit(rows, domain_, Fraction(1)).tables()["units"] for domain_ in (declared, plain)]
    table = fit(rows, declared, Fraction(1))
    codes = codes_of(table)
    sizes = codes[SIZE] + 1
    owners = np.repeat(np.arange(len(units[0][SIZE])), sizes[first_parts(sizes)])
    assert np.bincount(owners[codes["sex"] == 0]).max() == 1
    # Units that break it are left out, and nearly no synthetic unit is lost.
    assert [len(each[SIZE]) for each in units] == pytest.approx([1800, 2700], abs=80)


def test_units_without_parts_stay_so() -> None:
    empty = [(10**6 + unit, 1, 3, 2) for unit in range(3000)]
    table = fit([*couples(3000), *empty], domain(key="home"), Fraction(4))
    codes = codes_of(table)
    tables = table.tables()
    sizes = np.bincount(tables["units"][SIZE], minlength=3)[:3]
    assert np.abs(sizes - 3000).max() < 150
    assert tables["units"][SIZE].sum() == len(tables["synthetic"]["age"])
    is_empty = codes[SIZE] == 0
    assert (codes["age"][is_empty] == 3).all() and (codes["age"][~is_empty] == 3).mean() < 0.01
    assert table.probabilities(("age",))[3] < 0.01


@pytest.mark.parametrize("rows", [[], couples(1), couples(40)])
def test_few_units_give_a_table_that_keeps_constraints(rows: list[Row]) -> None:
    never = Constraint("no child alone", (SIZE, "age"), (((0,), (0,)),), is_only=False)
    table = fit(rows, domain(never), Fraction(1, 2))
    codes = codes_of(table)
    assert not ((codes[SIZE] == 0) & (codes["age"] == 0)).any()


def test_a_second_measurement_of_marginals_has_all_levels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TableGrowth, "run", lambda _: ())
    rows = [(unit, 1, 2, unit % 2) for unit in range(3000)]
    table = fit(rows, domain(), Fraction(1), model=OneShot(clique_cells=8))
    assert table.groupings["age"].size < 3
    deviations: dict[Names, list[float]] = {}
    for counts in table.noisy_counts[1:]:
        deviations.setdefault(counts.attributes, []).append(counts.deviation)
    for name in ("region", SIZE, "age", "sex"):
        first, second = deviations[name,]
        assert second < first, name
    assert OpenUnits(table.tables()).count().value == pytest.approx(3000, abs=200)


@pytest.mark.parametrize("attributes", [(SIZE, "age"), ("region", SIZE), (SIZE,)])
@pytest.mark.parametrize("key", ["", "unit"])
def test_units_or_parts_are_stored_without_attributes(attributes: Names, key: str) -> None:
    model = OneShot(attributes=attributes)
    tables = fit(couples(100), domain(key=key), Fraction(100), model=model).tables()
    of_units = [name for name in ("region",) if name in attributes]
    of_parts = [name for name in ("age",) if name in attributes]
    assert [*tables["units"]] == ["unit", *of_units, SIZE]
    assert [*tables["synthetic"]] == ["unit", "part", *of_parts]
    opened = OpenUnits(tables)
    assert opened.count("size == 2").value == pytest.approx(100, abs=3)
    assert opened.parts.count().value == pytest.approx(300, abs=6)


FIVE: dict[str, list[Row]] = {
    "one part": [(99, 0, 2, 1)],
    "two equal parts": [(99, 0, 2, 1), (99, 0, 2, 1)],
    "three parts of two regions": [(99, 0, 2, 1), (99, 1, 0, 0), (99, 1, 1, 0)],
    "no part": [(99, 0, 3, 2)],
}


@pytest.mark.parametrize("name", FIVE)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_unit_more_costs_at_most_epsilon_in_all(name: str, seed: int) -> None:
    """Both releases get the same answers, so they ask the same; each answer has its exact loss."""
    epsilon, recorded = Fraction(1), []
    for rows in (couples(20), [*couples(20), *FIVE[name]]):
        noise = RecordingNoise(ForcedNoise(seed))
        table = fit(rows, domain(key="home"), epsilon, noise)
        recorded.append(Run(table, tuple(noise.draws), ()))
    assert 0 < privacy_loss(*recorded) <= epsilon


def test_swaps_keep_parts_and_approach_noisy_pairs() -> None:
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, (400, 2))
    units = SyntheticUnits(2, {"region": rng.integers(0, 2, 400)}, {"sex": sex})
    goal = PairGoal(np.array([[0.0, 400.0], [400.0, 0.0]]), 4.0)
    swapped = swap_parts(units, {"sex": goal}, 4.0, in_order=False, rng=rng)
    assert sorted(swapped.parts["sex"].ravel()) == sorted(sex.ravel())
    assert (swapped.parts["sex"][:, 0] == swapped.parts["sex"][:, 1]).mean() < 0.1


def likely(noisy, variance, margins) -> FloatArray:
    variances = np.full(np.shape(noisy), variance)
    return likely_pairs(np.array(noisy), variances, np.array(margins), in_order=False)


def test_pairs_that_are_noise_alone_become_independent() -> None:
    margin = np.array([30.0, 70.0])
    drawn = likely([np.array([[10.0, 20.0], [22.0, 48.0]])], 10_000.0, [margin])
    assert np.allclose(drawn[0], np.outer(margin, margin) / 100, rtol=0.01)


def test_pairs_of_rare_levels_are_drawn_nearest_to_independence() -> None:
    margin = np.array([500.0, 480.0, 20.0])
    product = np.outer(margin, margin) / 1000
    away = np.array([[60.0, -60.0, 0.0], [-60.0, 60.0, 0.0], [0.0, 0.0, 0.0]])
    noise = np.array([[0.0, 0.0, 20.0], [0.0, 0.0, -20.0], [20.0, -20.0, 0.0]])
    drawn = likely([product + away + noise], 400.0, [margin])[0]
    assert drawn[0, 0] - product[0, 0] > 45
    assert abs(drawn[0, 2] - product[0, 2]) < 8
    assert np.allclose(drawn.sum(axis=1), margin, rtol=0.05)


def test_pairs_of_rare_sizes_take_the_dependence_of_others() -> None:
    margins = [np.array([1000.0, 1000.0]), np.array([50.0, 50.0])]
    alike = [np.array([[800.0, 200.0], [200.0, 800.0]]), np.array([[25.0, 25.0], [25.0, 25.0]])]
    often, rarely = likely(alike, 400.0, margins)
    assert often[0, 0] == pytest.approx(800, abs=10)
    assert 30 < rarely[0, 0] < 40
    assert np.allclose(rarely.sum(axis=1), margins[1])

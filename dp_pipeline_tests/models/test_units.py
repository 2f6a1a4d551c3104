"""Units with parts by one_shot: their rows keep sizes and constraints, and each unit is paid."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.constraints import Constraint
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts
from dp_pipeline.config.encoding import FloatArray, IntArray, Levels
from dp_pipeline.config.parts_parser import empty_unit_constraints
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.inference.likely_pairs import likely_pairs
from dp_pipeline.inference.pair_swaps import PairGoal, SyntheticUnits, swap_parts
from dp_pipeline.models.tables.one_shot import OneShot
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.units import units_of_parts
from dp_pipeline.results.synthetic_table import SyntheticTable, first_parts
from dp_pipeline_tests.instruments import ForcedNoise, RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import Run, privacy_loss

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


def fit(rows, declared, epsilon, noise=None) -> SyntheticTable:
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
    model = OneShot()
    model.check(declared)
    table = model.fit(curator, epsilon=epsilon, rng=np.random.default_rng(0))
    curator.accountant.require_all_spent()
    return table


def pair_shares(table: SyntheticTable, name: str) -> IntArray:
    """Share of pairs of parts of one unit with equal codes, by unit of two parts."""
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
    of_two = codes[name][codes[SIZE] == 1].reshape(-1, 2)
    return np.asarray((of_two[:, 0] == of_two[:, 1]).mean())


def test_pairs_of_parts_of_one_unit_are_those_of_the_rows() -> None:
    table = fit(couples(3000), domain(), Fraction(4))
    assert pair_shares(table, "age") > 0.85
    assert pair_shares(table, "sex") < 0.15
    sizes = dict(zip(table.attributes, table.codes.T, strict=True))[SIZE] + 1
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
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
    sizes = codes[SIZE] + 1
    owners = np.repeat(np.arange(len(units[0][SIZE])), sizes[first_parts(sizes)])
    assert np.bincount(owners[codes["sex"] == 0]).max() == 1
    # Units that break it are left out, and nearly no synthetic unit is lost.
    assert [len(each[SIZE]) for each in units] == pytest.approx([1800, 2700], abs=80)


def test_units_without_parts_stay_so() -> None:
    empty = [(10**6 + unit, 1, 3, 2) for unit in range(3000)]
    table = fit([*couples(3000), *empty], domain(key="home"), Fraction(4))
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
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
    codes = dict(zip(table.attributes, table.codes.T, strict=True))
    assert not ((codes[SIZE] == 0) & (codes["age"] == 0)).any()


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

"""Numbers of units, of their parts, and of units by their parts, with intervals."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_pipeline.answers.questions import answer_question
from dp_pipeline.answers.tables import OpenTable
from dp_pipeline.answers.units import OpenUnits
from dp_pipeline.answers.verdict import verdict
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Attribute, Domain, Parts
from dp_pipeline.config.encoding import Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline_tests.answers.releases import release
from dp_pipeline_tests.models.test_units import couples, domain, fit

UNITS = [(0, [0]), (0, [0, 0]), (0, [0, 1]), (1, [1, 2]), (1, [0, 1, 2]), (1, [0, 2, 0])]
"""Region of each unit, and the ages of its parts."""
EMPTY = (1, list[int]())
MISSING_AGE = 3
TIMES = 40
NOISE = 8
TABLES = (("region", SIZE), (SIZE, "age"), ("region", "age"))
SIZES = {"region": 2, SIZE: 4, "age": 4}


def tables_of_units(
    rng: np.random.Generator,
    *,
    is_in_order: bool = False,
    has_noise: bool = True,
    has_empty: bool = False,
) -> Tables:
    """Return a release whose rows are the units, each 40 times, and whose tables have noise."""
    units = [*UNITS, EMPTY] * TIMES if has_empty else UNITS * TIMES
    least = 0 if has_empty else 1
    of_sizes = {**SIZES, SIZE: SIZES[SIZE] - least}
    first = {"region": 0, SIZE: least, "age": 0}
    attributes = [
        Attribute(
            name, name, "drop", cells=Levels(tuple(str(first[name] + i) for i in range(size)))
        )
        for name, size in of_sizes.items()
    ]
    order, key = "hour" if is_in_order else "", "home" if has_empty else ""
    parts = Parts("persons", ("age",), 3, order, key)
    codes = []
    tables = {names: np.zeros([of_sizes[n] for n in names]) for names in TABLES}
    pairs = np.zeros((of_sizes[SIZE], 4, 4))
    for region, ages in units:
        for age in ages or [MISSING_AGE]:
            cell = {"region": region, SIZE: len(ages) - least, "age": age}
            codes.append([*cell.values()])
            for names, table in tables.items():
                table[tuple(cell[name] for name in names)] += 1 / max(1, len(ages))
        size = len(ages)
        of_unit = [(ages[i], ages[j]) for j in range(size) for i in range(j)]
        of_unit = [(ages[i], ages[i + 1]) for i in range(size - 1)] if is_in_order else of_unit
        for pair in of_unit:
            younger, older = pair if is_in_order else sorted(pair)
            pairs[size - least, younger, older] += 1 / len(of_unit)

    def noisy(names: tuple[str, ...], table: np.ndarray) -> NoisyMarginal:
        noise = rng.normal(0, NOISE, table.shape) if has_noise else 0
        counts = np.rint((table + noise) * UNIT_WEIGHT).astype(np.int64)
        return NoisyMarginal(names, counts, Fraction((NOISE * UNIT_WEIGHT) ** 2), gaussian=True)

    weighted = [noisy(names, table) for names, table in tables.items()]
    weighted.append(noisy((SIZE, "age", "age"), pairs))
    domain = Domain(tuple(attributes), (), parts)
    table = SyntheticTable(
        (*SIZES,), np.array(codes), (), (), (), domain, seed=1, weighted=tuple(weighted)
    )
    return table.tables()


def exact(**units: bool) -> OpenUnits:
    return OpenUnits(tables_of_units(np.random.default_rng(0), has_noise=False, **units))


CASES = [
    ("count", False, 6 * 40), ("count where region = '1'", False, 3 * 40),
    ("count where size >= 2", False, 5 * 40), ("quantile 0.5 of size", False, 2),
    ("share where region = 0 among size = 2", False, 2 / 3),
    ("mean size by region", False, [5 / 3, 8 / 3]), ("count", True, 13 * 40),
    ("count where age = 0", True, 7 * 40), ("count where age = 0 and region = 1", True, 3 * 40),
    ("share where age = 2 among size = 3", True, 2 / 6),
    ("table age", True, [7 * 40, 3 * 40, 3 * 40, 0]),
    ("count with a part where age = 0", False, 5 * 40),
    ("count where region = 0 with a part where age = 1", False, 40),
    ("share with a part where age = 2 among region = 1", False, 1),
]  # fmt: skip
CASES_WITH_EMPTY = [
    ("count", False, 7 * 40), ("count where size = 0", False, 40), ("count", True, 13 * 40),
    ("count where region = 1 and size = 0", False, 40), ("quantile 0 of size", False, 0),
    ("share where region = 1 among size = 0", False, 1),
    ("mean size by region", False, [5 / 3, 8 / 4]), ("count where age != 0", True, 6 * 40),
    ("mean age by region", True, [1 / 5, 1]), ("table age", True, [7 * 40, 3 * 40, 3 * 40, 0]),
    ("count with a part where age != 5", False, 6 * 40),
    ("count with a part where not age = 0", False, 4 * 40),
    ("count with a part where age = 0", False, 5 * 40),
    ("share with a part where age = 2 among region = 1", False, 3 / 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("units", "question", "of_parts", "value"),
    [
        *(({}, *case) for case in CASES),
        *(({"is_in_order": True}, *case) for case in CASES),
        *(({"has_empty": True}, *case) for case in CASES_WITH_EMPTY),
    ],
)
def test_units_and_parts_are_counted(units, question: str, of_parts: bool, value) -> None:
    lines = answer_question(exact(**units), question, of_parts=of_parts)
    assert [line["value"] for line in lines] == pytest.approx(np.ravel(value), rel=1e-3, abs=1e-9)
    assert all(line["low"] <= line["value"] <= line["high"] for line in lines)


NO_TEXT = "A condition must be a text, not|of parts takes a condition on them in `where`"
WRONG_ARGUMENTS: dict[str, tuple[str, Callable[[OpenTable, Any], Any]]] = {
    "where": ("A condition must be a text, not", lambda r, value: r.count(value)),
    "among": ("A condition must be a text, not", lambda r, value: r.share(among=value)),
    "part": (NO_TEXT, lambda r, value: r.count(any_part=value)),
    "part of a share": (NO_TEXT, lambda r, value: r.share(any_part=value)),
    "column": ("names a value of type .*, which is no column", lambda r, value: r.mean(value)),
    "by": ("names a value of type .*, which is no column", lambda r, v: r.mean("size", by=v)),
    "columns": ("names a value of type .*, which is no column", lambda r, value: r.table(value)),
    "level": ("level of an interval must be ", lambda r, value: r.count(level=value)),
    "quantile": ("probability of a quantile must be a num", lambda r, v: r.quantile("size", v)),
    "of": ("of: expected table or population, got", lambda r, value: r.table("size", of=value)),
    "number": ("number: expected an integer of", lambda r, value: r.replicates(value, seed=1)),
    "seed": ("seed: expected an integer of at", lambda r, value: r.replicates(2, seed=value)),
    "of replicates": ("of: expected", lambda r, value: r.replicates(2, seed=1, of=value)),
}
"""Argument → a message, and a question in which the argument has the value."""


@pytest.mark.parametrize("value", [None, pd.NA, ["region"], b"region", -1.5, np.array([1, 2])])
@pytest.mark.parametrize("argument", WRONG_ARGUMENTS)
@pytest.mark.parametrize("of_parts", [False, True])
def test_argument_of_another_type_is_refused(of_parts: bool, argument: str, value: object) -> None:
    message, question = WRONG_ARGUMENTS[argument]
    with pytest.raises(DeclarationError, match=message) as refused:
        question(exact().parts if of_parts else exact(), value)
    assert "\n" not in str(refused.value)


ROWS = release(np.array([3, 4]), [(("a",), np.array([3, 4]), 1.0)], names="a")
OF_PARTS = "of parts takes a condition on them in `where`, not in `any_part`: move"
OF_ROWS = "of rows without parts takes no `any_part`: leave it out"
NO_PARTS = "Parts can be asked for where units have parts"
OF_UNITS = "takes a condition on units in `where`, .*: .* `parts."
WITH_PART = "with a part where age == 0"
QUANTILE = "quantile 0.5 of size where region < 2"
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: exact().parts.count(any_part="age = 0"), f"A count {OF_PARTS}"),
    (lambda: exact().parts.share(any_part="age = 0"), f"A share {OF_PARTS}"),
    (lambda: exact().parts.mean("size", any_part="age = 0"), f"A mean {OF_PARTS}"),
    (lambda: exact().parts.quantile("size", 0.5, any_part="age = 0"), f"A quantile {OF_PARTS}"),
    (lambda: ROWS.count(any_part="a = 1"), f"A count {OF_ROWS}"),
    (lambda: ROWS.share(any_part="a = 1"), f"A share {OF_ROWS}"),
    (lambda: answer_question(ROWS, "count", of_parts=True), NO_PARTS),
    (lambda: answer_question(ROWS, "count with a part where a = 1"), NO_PARTS),
    (lambda: answer_question(exact(), f"count {WITH_PART}", of_parts=True), "is about units, but"),
    (lambda: exact().count("region == 0 and age == 1"), "names age, a column of parts"),
    (lambda: answer_question(exact(), f"mean size {WITH_PART}"), f"A mean {OF_UNITS}mean` "),
    (lambda: answer_question(exact(), f"{QUANTILE} {WITH_PART}"), f"{OF_UNITS}quantile` "),
]


@pytest.mark.parametrize(("question", "message"), REFUSED)
def test_a_condition_on_what_has_no_such_part_is_refused(question: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        question()


TRUE = {
    "count where region = 0": 400,
    "count where size = 2": 400,
    "count with a part where age = 0": 268,
    "count with a part where sex = 0": 600,
    "share with a part where sex = 0 among region = 1": 0.5,
}
TRUE_OF_PARTS = {"count": 1200, "count where age = 0": 402, "share where sex = 1": 0.5}
TRUE_WITH_EMPTY = {
    "count": 1000,
    "count where region = 1": 600,
    "count where size = 0": 200,
    "share with a part where sex = 0 among region = 1": 1 / 3,
}


@pytest.mark.parametrize("empty", [0, 200])
def test_intervals_hold_as_often_as_they_say(empty: int) -> None:
    """Couples of one age and two sexes, and as many single persons. Of the 8 numbers of a fit some
    hold together: 30 fits are taken as 100 numbers, and below 0.87 falls one in 1,000 runs."""
    inside = []
    for seed in range(30):
        rows = couples(400) + [(10**6 + unit, 1, 3, 2) for unit in range(empty)]
        table = fit(rows, domain(key="home" if empty else ""), Fraction(1), SeededNoise(seed))
        release_of_units = OpenUnits(table.tables())
        for of_parts, truth in ((False, TRUE_WITH_EMPTY if empty else TRUE), (True, TRUE_OF_PARTS)):
            for question, true in truth.items():
                line = answer_question(release_of_units, question, of_parts=of_parts)[0]
                inside.append(line["low"] <= true <= line["high"])
    assert np.mean(inside) > 0.87


def test_measured_pairs_narrow_bounds_of_units_with_a_part() -> None:
    """Of two parts at most, S1 − S2 is the number of units."""
    measured = exact().count("size < 3", any_part="age == 0")
    assert measured.basis == "measured"
    by_region = exact().count("size < 3 and region < 2", any_part="age == 0")
    assert by_region.basis == "bounded"
    assert by_region.high - by_region.low > measured.high - measured.low


def test_sampling_widens_what_is_said_of_parts() -> None:
    table, population = (exact().parts.count("age == 0", of=of) for of in ("table", "population"))
    assert population.high - population.low > 1.1 * (table.high - table.low)


def test_replicates_are_of_units_or_of_parts() -> None:
    opened = exact()
    units, parts = (next(iter(each.replicates(1, seed=3))) for each in (opened, opened.parts))
    assert {*units} == {"region", SIZE}
    assert {*parts} == {"region", SIZE, "age"}
    assert abs(len(units) - 240) < 6 * NOISE < abs(len(parts) - len(units))
    with pytest.raises(DeclarationError, match="A population is sampled unit by unit"):
        next(iter(opened.parts.replicates(1, seed=3, of="population")))


def test_the_verdict_is_of_units() -> None:
    words = " ".join(verdict(tables_of_units(np.random.default_rng(0))))
    assert "of all units, each counted once" in words

"""Generators of tables with invented distributions.

census_like: persons of an invented city, from a fixed Bayesian network of 12 attributes.

    sex   region → age → education → workclass → occupation → hours → income
                    └──► marital status → household      income, age, region → tenure
                                               region, workclass → commute

Attributes depend on each other as in real tables, and some cells break their declaration.

tic_like: many attributes of few levels for few rows, in blocks of dependent attributes.
"""

import numpy as np
import pyarrow as pa

from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.raw.generators import draw_category, random_numbers

SEXES = ("female", "male")
REGIONS = ("capital", "north", "south", "east", "west")
EDUCATIONS = ("primary", "secondary", "vocational", "bachelor", "master", "doctorate")
MARITAL = ("single", "married", "divorced", "widowed")
WORKCLASSES = ("private", "public", "self_employed", "not_working")
OCCUPATIONS = ("none", "manual", "service", "clerical", "technical", "professional", "manager")
TENURES = ("owner", "renter", "social")

_REGION = np.array([0.24, 0.18, 0.25, 0.19, 0.14])
_EDUCATION = np.array(  # outside of the capital; young, middle, old
    [[10, 34, 28, 20, 7, 1], [10, 24, 34, 19, 11, 2], [28, 30, 28, 8, 5, 1]], dtype=float
)
_CAPITAL_EDUCATION = np.array([0.6, 0.8, 0.7, 1.4, 1.9, 2.2])
_MARITAL = np.array(  # age 18–29, 30–44, 45–64, 65 and more
    [[80, 18, 2, 0.2], [32, 56, 11, 1], [14, 62, 19, 5], [6, 54, 12, 28]], dtype=float
)
_WORK = np.array([[58, 14, 5, 23], [60, 22, 11, 7], [8, 3, 5, 84]], dtype=float)
_OCCUPATION = np.array(  # by education; the level `none` is for those who do not work
    [
        [0, 58, 32, 6, 2, 1, 1],
        [0, 32, 34, 20, 7, 3, 4],
        [0, 34, 20, 12, 26, 4, 4],
        [0, 4, 10, 24, 22, 28, 12],
        [0, 1, 4, 10, 18, 47, 20],
        [0, 0.5, 1, 3, 10, 75, 10.5],
    ]
)
_OCCUPATION_OF_SEX = np.array(
    [[1, 0.6, 1.5, 1.5, 0.7, 1.1, 0.8], [1, 1.4, 0.6, 0.6, 1.3, 0.9, 1.2]]
)
_TENURE = np.array(  # by thirds of income: low, middle, high
    [[18, 56, 26], [44, 46, 10], [70, 28, 2]], dtype=float
)
_PAY = np.array([9.0, 21.0, 20.0, 24.0, 30.0, 40.0, 52.0])
_SCHOOLING_PAY = np.array([0.9, 1.0, 1.05, 1.2, 1.35, 1.5])
_COMMUTE = np.array([34.0, 22.0, 20.0, 24.0, 18.0])


def census_like(seed: int = 0, rows: int = 45_000) -> pa.Table:
    """Return generated persons (rows,) with 12 attributes; one row is one person.

    Text: sex, region, education, marital_status, workclass, occupation, tenure.
    Numbers: age (years), hours_per_week, income (thousands a year), household_size
    (persons), commute_minutes (one way).

    A few cells break any sensible declaration: about 1 % unknown levels of education,
    occupation and tenure, 0.3 % regions and 0.5 % incomes missing (null), and incomes
    and hours far out in the tail.
    """
    rng = random_numbers(seed)
    sex = draw_category(rng, np.array([0.51, 0.49]), (), rows)
    region = draw_category(rng, _REGION, (), rows)
    # The capital is younger and better educated.
    is_capital = region == 0
    share = np.where(is_capital, rng.beta(1.5, 2.9, rows), rng.beta(1.6, 2.1, rows))
    age: FloatArray = np.floor(18 + 78 * share)
    weights = np.stack([_EDUCATION, _EDUCATION * _CAPITAL_EDUCATION], axis=1)
    education = draw_category(rng, weights, (_generation(age), is_capital.astype(np.int64)), rows)
    marital = draw_category(rng, _MARITAL, (np.digitize(age, [30, 45, 65]),), rows)
    work = draw_category(rng, _WORK, (_generation(age),), rows)
    weights = _OCCUPATION[:, None, :] * _OCCUPATION_OF_SEX[None, :, :]
    occupation = np.where(work == 3, 0, draw_category(rng, weights, (education, sex), rows))
    hours = _hours(rng, work, sex)
    # Thousands a year: log-normal around what work, schooling and experience pay.
    worked = np.where(occupation == 0, 1.0, 0.25 + 0.75 * np.minimum(hours, 60.0) / 40.0)
    experience = 1.0 + 0.012 * np.clip(age - 22.0, 0.0, 30.0)
    usual = _PAY[occupation] * _SCHOOLING_PAY[education] * worked * experience
    income = np.round(usual * np.exp(0.38 * rng.standard_normal(rows)), 1)
    tenure = _tenures(rng, income, age, region)
    commute = np.where(work == 3, 0.0, np.rint(rng.gamma(2.0, _COMMUTE[region] / 2.0)))
    return pa.table(
        {
            "age": age,
            "sex": _texts(rng, sex, SEXES),
            "region": _texts(rng, region, REGIONS, missing=0.003),
            "education": _texts(rng, education, EDUCATIONS, strange=("foreign", "not stated")),
            "marital_status": _texts(rng, marital, MARITAL),
            "workclass": _texts(rng, work, WORKCLASSES),
            "occupation": _texts(rng, occupation, OCCUPATIONS, strange=("armed forces", "?")),
            "hours_per_week": hours,
            "income": pa.array(income, mask=rng.random(rows) < 0.005),
            "household_size": _households(rng, marital, age),
            "tenure": _texts(rng, tenure, TENURES, strange=("company flat",)),
            "commute_minutes": commute,
        }
    )


def _texts(
    rng: np.random.Generator,
    codes: IntArray,
    levels: tuple[str, ...],
    *,
    strange: tuple[str, ...] = (),
    missing: float = 0.0,
) -> pa.Array:
    names = np.array([*levels, *strange], dtype=object)
    if strange:
        unknown = rng.integers(len(levels), len(names), size=len(codes))
        codes = np.where(rng.random(len(codes)) < 0.01, unknown, codes)
    return pa.array(names[codes], pa.string(), mask=rng.random(len(codes)) < missing)


def _generation(age: FloatArray) -> IntArray:
    return np.digitize(age, [30, 65])


def _hours(rng: np.random.Generator, work: IntArray, sex: IntArray) -> FloatArray:
    full = np.where(work == 2, 47.0, 39.5) + np.where(work == 2, 11.0, 3.0) * rng.standard_normal(
        len(work)
    )
    is_part_time = rng.random(len(work)) < np.where(sex == 0, 0.34, 0.09)
    hours = np.where(is_part_time, 21.0 + 5.0 * rng.standard_normal(len(work)), full)
    return np.where(work == 3, 0.0, np.rint(np.clip(hours, 2.0, 110.0)))


def _tenures(
    rng: np.random.Generator, income: FloatArray, age: FloatArray, region: IntArray
) -> IntArray:
    weights = np.stack([_TENURE * (0.5, 1.3, 1.2), _TENURE * (1.4, 0.8, 0.9)], axis=0)
    in_capital = np.stack([weights, weights * (0.5, 1.5, 1.0)], axis=0)
    parents = (
        (region == 0).astype(np.int64),
        (age >= 45).astype(np.int64),
        np.digitize(income, [15.0, 35.0]),
    )
    return draw_category(rng, in_capital, parents, len(age))


def _households(rng: np.random.Generator, marital: IntArray, age: FloatArray) -> FloatArray:
    children = rng.poisson(np.where((age >= 28) & (age < 55), 1.25, 0.25))
    partner = np.where(marital == 1, 1, rng.random(len(age)) < 0.18)
    children = np.where((marital == 0) & (age >= 30), children // 2, children)
    return (1 + partner + children).astype(np.float64)


SIZES = (2, 3, 10, 5, 2, 7, 4, 8, 2, 6, 9, 3) * 7 + (2, 2)  # Levels of the 86 attributes, 2 to 10
BLOCKS = (5, 9, 3, 14, 7, 2, 11, 6, 17, 4, 8)  # Attributes of each block

_STRUCTURE = 86
_LINK, _CLEAR = 0.6, 3.0


def tic_like(seed: int = 0, rows: int = 9_822) -> pa.Table:
    """Return generated rows (rows,) of 86 texts c1 to c86, which are integers from 0.

    In a block an attribute depends on one or two before it, and most blocks begin with one that
    depends on the beginning of another; all else is independent. The size is that of the CoIL 2000
    table of customers (TIC), which is not shipped.
    """
    rng, structure = random_numbers(seed), random_numbers(_STRUCTURE)
    codes: list[IntArray] = []
    firsts: list[int] = []
    for length in BLOCKS:
        block: list[int] = []
        for _ in range(length):
            parent_indices: list[int] = []
            if block:
                most = min(len(block), 1 + int(structure.random() < 0.25))
                parent_indices = sorted(structure.choice(block, size=most, replace=False).tolist())
            elif firsts and structure.random() < _LINK:
                parent_indices = [int(structure.choice(firsts))]
            shape = (*(SIZES[index] for index in parent_indices), SIZES[len(codes)])
            parent_codes = tuple(codes[index] for index in parent_indices)
            # Levels are likely or rare, differently for each combination of parents.
            weights = np.exp(_CLEAR / 2 * structure.standard_normal(shape))
            codes.append(draw_category(rng, weights, parent_codes, rows))
            block.append(len(codes) - 1)
        firsts.append(block[0])
    texts = [pa.array(column.astype(str).tolist(), pa.string()) for column in codes]
    return pa.table(texts, names=[f"c{number}" for number in range(1, len(texts) + 1)])

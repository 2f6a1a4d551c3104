"""Classes are the answers that a row can give to declared bits; which of them are published."""

import itertools
from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.results.bit_classes import (
    CLASS,
    BitClasses,
    DeclaredBit,
    bit_count,
    declared_bits,
    margin_of_sum,
    tail_of_sum,
)
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline_tests.models.tables import domain_of

BETA = Fraction(1, 20)
DOMAIN = domain_of([2, 2, 3])
CLASSES = BitClasses(declared_bits(DOMAIN, ("x1", "x2")), DOMAIN)
PROMISE = ClassPromise(5, 1, BETA, 2, CLASSES.size, Fraction(1))


def table_of(noisy: list[list[int]], promise: ClassPromise = PROMISE) -> ClassTable:
    return ClassTable.of_noisy("x0", CLASSES, np.array(noisy), promise)


def values_of(table: ClassTable) -> dict[str, dict[str, list[object]]]:
    """All that is published, as lists."""
    return {
        name: {column: values.tolist() for column, values in columns.items()}
        for name, columns in table.tables().items()
    }


NOISY = [[3, 4], [20, 7], [-2, 9], [8, 0], [30, -9], [4, 3]]


def chance_of(rows: int, least: int, promise: ClassPromise) -> float:
    """P(a class of so many rows is published), by summing the products of all noises."""
    total, zero = convolved(promise.labels, promise.scale)
    return float(total[zero + least - rows :].sum())


PROMISES = [
    ClassPromise(k, rows, beta, labels, 256, scale)
    for k in (1, 5, 20)
    for rows in (1, 3)
    for beta in (BETA, Fraction(1, 3))
    for labels in (2, 10)
    for scale in (Fraction(1, 3), Fraction(7, 2), Fraction(40))
]


def test_a_small_class_is_published_with_at_most_beta():
    """Fewer than K persons, of as many rows as they may have; and no smaller size would do."""
    tight = 0
    for promise in PROMISES:
        most_rows = (promise.k - 1) * promise.rows
        assert chance_of(most_rows, promise.least_size, promise) <= promise.beta
        chance = chance_of(most_rows, promise.least_size - 1, promise)
        assert chance > promise.beta or promise.margin == 0
        tight += chance > promise.beta
    assert tight > len(PROMISES) / 2


def test_small_classes_are_published_as_often_as_claimed():
    # 20,000 tables of six classes of four rows. The mean is within 5 standard errors of its
    # expectation but with probability 6e-7.
    draws, exact = 20_000, np.tile([4, 0], (6, 1))
    noise = SeededNoise(11).discrete_laplace(np.zeros((draws, 6, 2), np.int64), Fraction(3))
    promise = ClassPromise(5, 1, BETA, 2, 6, Fraction(3))
    small = ((exact + noise).sum(axis=2) >= promise.least_size).sum(axis=1)
    expected = 6 * chance_of(4, promise.least_size, promise)
    assert abs(small.mean() - expected) < 5 * small.std() / draws**0.5
    assert expected <= promise.most_small == Fraction(6, 20)
    sample = [table_of((exact + draw).tolist(), promise) for draw in noise[:50]]
    assert [len(draw.published) for draw in sample] == small[:50].tolist()


def test_the_claims_say_what_holds_and_what_does_not():
    claims = PROMISE.claims()
    assert claims["promised"].tolist() == ["yes", "yes", "yes", "no"]
    assert "probability of at most 0.05" in claims["claim"][1]
    assert "At most 0.3 classes of fewer than 5 rows" in claims["claim"][2]
    assert claims["claim"][3] == "No class in these tables has fewer than 5 rows."
    of_persons = ClassPromise(5, 3, BETA, 2, 6, Fraction(3))
    assert "fewer than 5 persons" in of_persons.claims()["claim"][1]
    assert of_persons.least_size == 4 * 3 + 1 + of_persons.margin
    # Under replace_one neighbours differ by two rows where every person has one.
    assert of_persons.numbers()["rows that neighbours differ by"].tolist() == [3]


def test_classes_of_the_least_size_are_published():
    assert PROMISE.least_size == 8
    table = table_of(NOISY)
    tables = table.tables()
    assert table.published.tolist() == tables["classes"]["class"].tolist() == [1, 3, 4]
    assert set(tables["counts"]["class"].tolist()) == {1, 3, 4}
    assert tables["classes"]["rows"].tolist() == [27, 8, 21]
    assert table.counts.tolist() == [[20, 7], [8, 0], [30, -9]]
    assert table.total.tolist() == [58, -2]
    assert table.places.tolist() == [3, 0, 3, 1, 2, 3]


ONE_WITHHELD = [[9, 4], [20, 7], [5, 2], [8, 9], [30, -9], [14, 3]]
"""All but the third class reach the least size of 8: subtraction would leave it alone."""


@pytest.mark.parametrize("noisy", [NOISY, ONE_WITHHELD])
def test_nothing_is_said_of_withheld_classes(noisy: list[list[int]]):
    """Other counts under the threshold: the same tables, and the same rates."""
    withheld = [index for index, counts in enumerate(noisy) if sum(counts) < PROMISE.least_size]
    table = table_of(noisy)
    assert withheld == sorted(set(range(6)) - set(table.published.tolist())) != []
    for counts in ([0, 0], [7, 0], [-40, 3]):
        other = table_of([counts if at in withheld else row for at, row in enumerate(noisy)])
        assert other.rates.tolist() == table.rates.tolist()
        assert values_of(other) == values_of(table)


def test_the_tables_say_what_a_class_answers():
    tables = table_of(NOISY).tables()
    bits = tables["bits"]["bit"].tolist()
    assert bits == ["x1=1", "x2=0", "x2=1", "x2=2"]
    assert tables["bit_levels"]["level"].tolist() == ["1", "0", "1", "2"]
    answers = np.stack([tables["classes"][f"{index} {bit}"] for index, bit in enumerate(bits)])
    assert answers.T.tolist() == CLASSES.answers[[1, 3, 4]].tolist()
    assert tables["total"]["level"].tolist() == ["0", "1"]


@given(st.lists(st.integers(-20, 40), min_size=12, max_size=12))
def test_a_release_is_read_back_and_its_rates_are_shares(values: list[int]):
    table = table_of(np.reshape(values, (6, 2)).tolist())
    again = ClassTable.from_tables(table.tables(), DOMAIN)
    assert (again.label, again.classes, again.promise) == ("x0", CLASSES, PROMISE)
    assert values_of(again) == values_of(table)
    assert (table.rates >= 0).all()
    assert np.allclose(table.rates.sum(axis=1), 1)


def test_a_rate_is_of_the_class_and_one_row_of_all():
    # Of the second level there are −2 in all, by noise.
    rates, overall = table_of(NOISY).rates, np.array([1, 0])
    assert rates[0] == pytest.approx((np.array([20, 7]) + overall) / 28)
    assert rates[2] == pytest.approx((np.array([30, 0]) + overall) / 31)
    assert rates[3] == pytest.approx(overall)
    places = table_of(NOISY).places_of({"x1": np.array([0, 1]), "x2": np.array([1, 0])})
    assert places.tolist() == [0, 1]
    # Where no class is published every level is as likely.
    for small in ([-1, -2], [7, 0]):
        assert table_of([small] * 6).rates.tolist() == [[0.5, 0.5]]


SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10)]


@cache
def convolved(terms: int, scale: Fraction) -> tuple[np.ndarray, int]:
    """Probabilities of the sum, by summing products, and the place of 0; what is cut off has
    probability below 1e-20.
    """
    end = ceil(50 * scale) + 10
    q = np.exp(-1 / float(scale))
    single = (1 - q) / (1 + q) * q ** np.abs(np.arange(-end, end + 1))
    total = np.array([1.0])
    for _ in range(terms):
        total = np.convolve(total, single)
    return total, terms * end


@pytest.mark.parametrize("terms", [1, 2, 3, 10, 30])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tail_and_margin_are_those_of_the_convolution(terms: int, scale: Fraction):
    probabilities, zero = convolved(terms, scale)
    for above in (0, 1, 2, 5, 17, 60):
        expected = probabilities[zero + above + 1 :].sum()
        assert tail_of_sum(terms, scale, above) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    tails = probabilities[zero:][::-1].cumsum()[::-1]
    for beta in (Fraction(1, 2), BETA, Fraction(1, 1000)):
        margin = margin_of_sum(terms, scale, most=beta)
        assert tails[margin + 1] <= beta
        assert margin == 0 or tails[margin] > beta


def test_a_small_tail_has_all_its_digits():
    q = np.exp(-50.0)
    assert tail_of_sum(1, Fraction(1, 50), 1) == pytest.approx(q**2 / (1 + q), rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("terms", "scale", "margin"),
    [
        (1, Fraction(1, 10**6), 0),
        (256, Fraction(1, 10**6), 0),
        # About 1.645 standard deviations of a normal number; about b·ln 10 of a Laplace one.
        (256, Fraction(3), 111),
        (1, Fraction(10**9), 2_302_585_093),
    ],
)
def test_no_scale_is_too_small_or_too_large(terms: int, scale: Fraction, margin: int):
    assert margin_of_sum(terms, scale, most=BETA) == pytest.approx(margin, abs=1, rel=1e-8)


AGE = Attribute(
    "age", "age", "clip", Coordinate(0.0, 60.0), Bins((0.0, 20.0, 40.0, 60.0)), nullable=True
)
COLOUR = Attribute("colour", "colour", "drop", cells=Levels(("red", "green", "blue")))
SMOKES = Attribute("smokes", "smokes", "drop", cells=Levels(("no", "yes")))
PLANET = Attribute("planet", "planet", "drop", cells=Levels(("earth",)))
LIVES = Attribute("lives", "lives", "drop", cells=Levels(("yes",)), nullable=True)
PEOPLE = Domain((AGE, COLOUR, SMOKES, PLANET, LIVES))
BITS = declared_bits(PEOPLE, PEOPLE.names)


def test_bins_are_asked_for_thresholds_and_levels_one_by_one():
    assert [(bit.name, bit.codes) for bit in BITS] == [
        ("age>=[20, 40)", (1, 2)),
        ("age>=[40, 60]", (2,)),
        ("age=missing", (3,)),
        ("colour=red", (0,)),
        ("colour=green", (1,)),
        ("colour=blue", (2,)),
        ("smokes=yes", (1,)),
        ("lives=missing", (1,)),
    ]


@pytest.mark.parametrize("nullable", [False, True])
def test_bits_are_counted_without_making_them(nullable: bool):
    bins = [Bins.equal_width(0.0, 1.0, number) for number in (1, 2, 3, 9)]
    levels = [Levels(("a", "b", "c", "d")[:number]) for number in (1, 2, 3, 4)]
    for attribute in (*bins, *levels):
        box = Coordinate(0.0, 1.0) if isinstance(attribute, Bins) else None
        domain = Domain((Attribute("x", "x", "drop", box, attribute, nullable=nullable),))
        assert bit_count(domain, ("x",)) == len(declared_bits(domain, ("x",)))
    assert bit_count(PEOPLE, PEOPLE.names) == len(BITS)


def test_no_two_bits_say_the_same_or_the_contrary():
    for bit, other in itertools.combinations(BITS, 2):
        if bit.attribute == other.attribute:
            size = PEOPLE[bit.attribute].size
            contrary = tuple(1 - answer for answer in other.answers(size))
            assert bit.answers(size) not in (other.answers(size), contrary)
    alike = tuple(DeclaredBit("age>=20", "age", codes) for codes in ((1, 2), (2,), (3,)))
    for bits in (BITS, alike):
        assert len({bit.key for bit in bits}) == len(bits)


bits = st.lists(st.sampled_from(BITS), min_size=1, max_size=6, unique=True)


@given(bits, st.sampled_from(BITS))
def test_every_set_of_possible_answers_is_a_class(sample: list[DeclaredBit], other: DeclaredBit):
    classes = BitClasses(tuple(sample), PEOPLE)
    rows = itertools.product(*(range(size) for size in PEOPLE.shape(PEOPLE.names)))
    codes = dict(zip(PEOPLE.names, np.array(list(rows)).T, strict=True))
    class_numbers = classes.of(codes)
    answers = np.stack([np.isin(codes[bit.attribute], bit.codes) for bit in sample], axis=1)
    assert (classes.answers[class_numbers] == answers).all()
    assert sorted(set(class_numbers.tolist())) == list(range(classes.size))
    assert len({*map(tuple, answers.tolist())}) == classes.size <= 2 ** len(sample)
    # What is derived at the gate is the same class.
    groups = classes.derived_groups()
    assert classes.derived_class().keys() == {CLASS}
    (of_groups,) = classes.derived_class().values()
    finer = [
        np.array(groups[n].groups)[codes[groups[n].attributes[0]]] for n in of_groups.attributes
    ]
    cells = np.ravel_multi_index(finer, [groups[name].size for name in of_groups.attributes])
    assert np.array(of_groups.groups)[cells].tolist() == class_numbers.tolist()
    with_bit = BitClasses((*sample, other), PEOPLE)
    assert classes.are_split_by(other) == (with_bit.size > classes.size)


def test_the_last_level_is_decided_by_all_others():
    red, *others = declared_bits(PEOPLE, ("colour",))
    for left_out, remaining in ((red, others), (others[0], (red, others[1]))):
        classes = BitClasses(tuple(remaining), PEOPLE)
        assert not classes.are_split_by(left_out)
        assert classes.size == 3
    # Before there is a bit everybody is in one class.
    assert all(BitClasses((), PEOPLE).are_split_by(bit) for bit in BITS)
    assert BitClasses((), PEOPLE).size == 1

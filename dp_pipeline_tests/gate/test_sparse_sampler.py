"""Large cells of a huge table: noise as if on all cells, what is paid for it, what is refused."""

import random
from collections import Counter
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import sparse_sampler
from dp_pipeline.gate.samplers import UniformIntegers
from dp_pipeline.gate.sparse_sampler import (
    MAX_CELLS,
    MAX_THRESHOLD_SCALES,
    expected_above_threshold,
    invert_distribution,
    sparse_laplace,
    threshold_binomial,
)
from dp_pipeline.results.accountant import LAPLACE
from dp_pipeline_tests.gate.distributions import ALARM, by_source, laplace_cdf
from dp_pipeline_tests.gate.questions import ONE, FailingCounter
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.models.tables import levels
from dp_pipeline_tests.populations import TEN_PEOPLE, LoopCounter

COUNTS = (0, 3, 0, 1)
"""A table of four cells, two of them empty."""

SCALE, THRESHOLD = Fraction(7, 3), 2
DRAWS = 1000

Outcome = tuple[int, ...]
"""What each cell shows: 0 below the threshold, else 1, 2, … for the threshold, one more, …"""


def chances(count: int) -> list[float]:
    """P(what a cell with this count shows); the last is for everything larger."""
    steps = np.arange(THRESHOLD - 1, THRESHOLD + 2) - count
    upto = laplace_cdf(steps, SCALE)
    return [*np.diff([0, *upto]), 1 - upto[-1]]


def shown(cells_shown: np.ndarray) -> Outcome:
    cells = [0] * len(COUNTS)
    for key, noisy in cells_shown.tolist():
        cells[key] = min(3, noisy - THRESHOLD + 1)
    return tuple(cells)


def p_value(draw: Callable[[], np.ndarray]) -> float:
    """Of what all cells show together, and each by itself: the least of five, times five."""
    counts = Counter(shown(draw()) for _ in range(DRAWS))
    every = np.array(np.meshgrid(*[range(4)] * len(COUNTS), indexing="ij")).reshape(4, -1).T
    of_cells = [chances(count) for count in COUNTS]
    expected = [
        DRAWS * np.prod([p[at] for p, at in zip(of_cells, outcome, strict=True)])
        for outcome in every.tolist()
    ]
    pairs = [(counts[tuple(cells)], e) for cells, e in zip(every.tolist(), expected, strict=True)]
    common = [pair for pair in pairs if pair[1] >= 50]
    rare = np.sum([pair for pair in pairs if pair[1] < 50], axis=0)
    together = stats.chisquare(*np.array([*common, rare]).T).pvalue
    alone = [
        stats.chisquare(
            [sum(n for cells, n in counts.items() if cells[cell] == step) for step in range(4)],
            DRAWS * np.array(p),
        ).pvalue
        for cell, p in enumerate(of_cells)
    ]
    return 5 * float(min(together, *alone))


def test_all_cells_together_are_as_if_each_had_its_own_noise() -> None:
    table = {"cells": len(COUNTS), "threshold": THRESHOLD, "uniform": words(1)}
    occupied = np.array([[1, 3], [3, 1]])
    assert p_value(partial(sparse_laplace, occupied, SCALE, **table)) > ALARM


@by_source
def test_a_table_larger_than_any_array_comes_in_order(source) -> None:
    cells = 1 << 62
    keys = np.array([5, 7 << 40, cells - 1])
    occupied = np.stack([keys, [10**6, 3, 10**6]], axis=1)
    large = source.sparse_laplace(occupied, Fraction(10), cells=cells, threshold=380)
    assert large.dtype == np.int64
    assert (np.diff(large[:, 0]) > 0).all()
    assert (large[:, 1] >= 380).all()
    assert {5, cells - 1} <= set(large[:, 0].tolist())
    # 76 of the empty cells on average: below 20 or above 200 once in 10^12 runs.
    assert 20 < len(large) < 200


@by_source
def test_an_empty_table_gives_noise_and_floats_are_refused(source) -> None:
    empty = np.zeros((0, 2), dtype=np.int64)
    assert source.sparse_laplace(empty, Fraction(1), cells=9, threshold=40).shape == (0, 2)
    large = source.sparse_laplace(empty, Fraction(1000), cells=1000, threshold=1)
    assert 300 < len(large) < 700
    with pytest.raises(BoundaryViolation, match="must hold integers"):
        source.sparse_laplace(empty.astype(float), Fraction(1), cells=9, threshold=1)


def test_different_numbers_are_a_uniform_set() -> None:
    uniform = UniformIntegers(random.Random(3).randbytes)
    sets = Counter(
        tuple(sparse_sampler._sample_distinct(2, 4, uniform).tolist()) for _ in range(DRAWS)
    )
    assert len(sets) == 6
    assert stats.chisquare(list(sets.values())).pvalue > ALARM
    assert sparse_sampler._sample_distinct(50, 50, uniform).tolist() == list(range(50))


CASES = {
    "two cells": (2, 1, Fraction(1)),
    "a few cells": (18, 2, Fraction(7, 3)),
    "many cells": (10**6, 25, Fraction(2)),
    "as many cells as keys": (MAX_CELLS, 400, Fraction(10)),
    "half the noise": (40, 1, Fraction(1000)),
}


def words(seed: int) -> UniformIntegers:
    return UniformIntegers(random.Random(seed).randbytes)


def test_the_expected_number_counts_the_tail_of_the_noise() -> None:
    x = np.arange(-2000, 2000)
    weights = np.exp(-np.abs(x) / 7.0)
    tail = weights[x >= 30].sum() / weights.sum()
    assert expected_above_threshold(1000, 30, Fraction(7)) == pytest.approx(1000 * tail)


def distribution(case: str, digits: int, upto: int) -> list[Decimal]:
    """F(0), F(1), … computed another way: each term by itself, from logarithms."""
    cells, threshold, scale = CASES[case]
    with localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        q = (-1 / (Decimal(scale.numerator) / scale.denominator)).exp()
        p = q**threshold / (1 + q)
        probabilities, total, log = [], Decimal(0), Decimal(0)
        for k in range(upto):
            total += (log + k * p.ln() + (cells - k) * (1 - p).ln()).exp()
            log += Decimal(cells - k).ln() - Decimal(k + 1).ln()
            probabilities.append(total)
        return probabilities


def bits_of(share: Decimal, bits: int) -> int:
    """The first bits of a number below 1."""
    with localcontext(Context(prec=400)):
        return int(share * (1 << bits))


@pytest.mark.parametrize("case", CASES)
def test_numbers_next_to_every_value_are_inverted_rightly(case: str) -> None:
    # 2^-120 is nearer than any draw will be, and far enough for 80 digits.
    cells, threshold, scale = CASES[case]
    for k, upto in enumerate(distribution(case, 120, min(cells, 30))):
        place = bits_of(upto, 128)
        for step in (-256, 256):
            value = invert_distribution(
                cells, threshold, scale, uniform_bits=place + step, bits=128, digits=80
            )
            assert value == (k if step < 0 else k + 1)


@pytest.mark.parametrize("case", CASES)
def test_numbers_too_near_to_a_value_need_more_digits(case: str) -> None:
    cells, threshold, scale = CASES[case]
    (upto,) = distribution(case, 300, 1)
    place = bits_of(upto, 300)
    for step in (-1000, 1000):
        digits = {"uniform_bits": place + step, "bits": 300}
        assert invert_distribution(cells, threshold, scale, digits=80, **digits) is None
        assert invert_distribution(cells, threshold, scale, digits=320, **digits) == (
            0 if step < 0 else 1
        )


def test_an_undecided_draw_gets_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slowly(*of: object, uniform_bits: int, bits: int, digits: int) -> int | None:
        calls.append((uniform_bits, bits, digits))
        if digits < 320:
            return None
        return invert_distribution(*of, uniform_bits=uniform_bits, bits=bits, digits=digits)  # type: ignore[arg-type]

    monkeypatch.setattr(sparse_sampler, "invert_distribution", slowly)
    threshold_binomial(100, 3, Fraction(2), words(1))
    assert [question[1:] for question in calls] == [(128, 80), (256, 160), (384, 320)]
    # The bits that are known stay.
    assert all(late[0] >> 128 == early[0] for early, late in pairwise(calls))


def test_the_smallest_and_largest_inputs_are_answered() -> None:
    tiny = Fraction(1, 10**6)
    assert threshold_binomial(MAX_CELLS, MAX_THRESHOLD_SCALES, Fraction(1), words(1)) == 0
    assert threshold_binomial(MAX_CELLS, 1, tiny, words(1)) == 0
    assert threshold_binomial(1, 1, Fraction(2**55), words(1)) in (0, 1)
    # All digits of U are 1: F never gets there in 80 digits, and the last cell ends it.
    ones = {"uniform_bits": (1 << 128) - 1, "bits": 128}
    assert invert_distribution(3, 1, Fraction(9), digits=80, **ones) == 3


NAMES = ("smokes", "y", "colour")
WIDE = levels(**{f"a{index}": 8 for index in range(21)})
"""Twenty of its attributes have 2^60 cells together, all of them 2^63."""


def test_without_noise_the_large_cells_are_the_true_ones() -> None:
    (exact,) = LoopCounter(TEN_PEOPLE).count([NAMES])
    counts = exact.open_at_the_gate()
    for threshold in (1, 2, 3):
        table = curator_over(TEN_PEOPLE).sparse_table(NAMES, threshold=threshold, epsilon=SILENT)
        assert table.codes.tolist() == np.argwhere(counts >= threshold).tolist()
        assert table.counts.tolist() == counts[counts >= threshold].tolist()


@pytest.mark.parametrize("distance", [1, 3])
def test_a_person_is_paid_for_in_one_cell_a_row(distance: int) -> None:
    curator = curator_over(TEN_PEOPLE, epsilon=ONE / 2, distance=distance)
    table = curator.sparse_table(NAMES, threshold=5, epsilon=ONE / 2)
    (spend,) = curator.accountant.spends
    assert (spend.mechanism, spend.sensitivity, spend.scale) == (LAPLACE, distance, 2 * distance)
    assert table.scale == spend.scale


def test_a_table_of_2_to_the_60_cells_is_answered() -> None:
    rows = (*[("7",) * 21] * 500, ("0",) * 21)
    curator = curator_over(LoopCounter(rows, WIDE), domain=WIDE)
    names = WIDE.names[:20]
    table = curator.sparse_table(names, threshold=50, epsilon=ONE)
    assert table.codes.tolist() == [[7] * 20]
    assert abs(int(table.counts[0]) - 500) < 100


REFUSED = {
    "no attribute": ((), 1),
    "an attribute twice": (("a0", "a1", "a0"), 1),
    "too many cells": (WIDE.names, 10**9),
    "a threshold of nothing": (("a0",), 0),
    "a threshold that is not whole": (("a0",), 1.5),
    "a threshold that is a truth value": (("a0",), True),
    "more scales than are proven": (("a0",), (1 << 32) + 1),
    "too many empty cells above it": (WIDE.names[:20], 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proven_is_refused_before_any_charge(name: str) -> None:
    attributes, threshold = REFUSED[name]
    curator = curator_over(FailingCounter(WIDE), domain=WIDE)
    with pytest.raises(BoundaryViolation) as refused:
        curator.sparse_table(attributes, threshold=threshold, epsilon=ONE)
    assert len(str(refused.value).splitlines()) == 1
    assert curator.accountant.spends == ()

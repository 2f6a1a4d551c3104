"""Which texts leave: (ε, δ) counted exactly on small universes, and mutants that it catches."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, product

import numpy as np
import pytest
from scipy import stats

from dp_pipeline.config.amounts import rho_of
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import texts
from dp_pipeline.gate.noise import SeededNoise, root_at_least
from dp_pipeline.gate.texts import (
    SINGLE_TEXT_WEIGHT,
    TextRule,
    draw_truncated_laplace,
    gaussian_noise_bound,
    noise_bound,
    pack_texts,
    parse_texts,
    text_rule,
    unpack_texts,
)
from dp_pipeline.results.accountant import GAUSSIAN_TEXTS, TRUNCATED_TEXTS, Accountant
from dp_pipeline_tests.gate.distributions import ALARM, by_source, gaussian_cdf
from dp_pipeline_tests.instruments import RecordingNoise

TEXTS = ("a", "b", "c")
Person = frozenset[str]
ONE = Fraction(1)


def rule_of(*, rows=1, persons=1, epsilon=ONE, delta=ONE / 50) -> TextRule:
    return text_rule("t", rows=rows, persons=persons, epsilon=epsilon, delta=delta, most=9)


def kind_of(mechanism: str, *, rows: int, persons: int, delta: Fraction) -> TextRule:
    """The rule of one of the two mechanisms, whichever lets more texts leave."""
    make = {TRUNCATED_TEXTS: texts._truncated_rule, GAUSSIAN_TEXTS: texts._gaussian_rule}
    return make[mechanism]("t", rows, persons, ONE, delta, 9)


def persons_of(rows: int) -> list[Person]:
    """Everybody there can be: who has up to so many of the texts."""
    return [frozenset(texts) for many in range(rows + 1) for texts in combinations(TEXTS, many)]


def number(people: Sequence[Person], text: str, rule: TextRule) -> int:
    return sum(rule.weights[len(words) - 1] for words in people if text in words)


@cache
def chance(rule: TextRule, count: int) -> float:
    """P(a text with this number leaves), by summing the noise's exact probabilities."""
    if not count:
        return 0.0
    if rule.spend.mechanism == GAUSSIAN_TEXTS:
        # In units of the weight; the sum of a discrete Gaussian of so large a variance is the
        # continuous tail to more digits than are compared.
        sigma = math.sqrt(rule.spend.scale)
        return float(stats.norm.sf((rule.threshold - 0.5 - count) / sigma))
    k, q = rule.threshold - 1, math.exp(-1 / rule.spend.scale)
    pmf = [q ** abs(x) for x in range(-k, k + 1)]
    return math.fsum(p for x, p in zip(range(-k, k + 1), pmf, strict=True) if count + x > k) / (
        math.fsum(pmf)
    )


def answers(people: Sequence[Person], rule: TextRule) -> dict[Person, float]:
    """Every set of texts that may leave, and its probability."""
    chances = {text: chance(rule, number(people, text, rule)) for text in TEXTS}
    actual = {}
    for left in product((False, True), repeat=len(TEXTS)):
        named = dict(zip(TEXTS, left, strict=True))
        parts = (chances[text] if named[text] else 1 - chances[text] for text in TEXTS)
        actual[frozenset(text for text in TEXTS if named[text])] = math.prod(parts)
    return actual


def failing_mass(words: Sequence[Person], other: Sequence[Person], rule: TextRule) -> float:
    """The least δ for which P(one leaves S) ≤ e^ε·P(other leaves S) + δ for every S."""
    first, second = answers(words, rule), answers(other, rule)
    factor = math.exp(rule.spend.epsilon)
    return math.fsum(max(0.0, p - factor * second[left]) for left, p in first.items())


def neighbours(rows: int, persons: int) -> Iterator[tuple[list[Person], list[Person]]]:
    everybody = persons_of(rows)
    crowds = chain([()], product(everybody, repeat=1), product(everybody, repeat=2))
    crowded = [list(crowd) for crowd in crowds]
    # Enough of them for the thresholds of these tests to be near.
    crowd = frozenset("ab"[:rows])
    crowded += [[crowd] * many + [frozenset("c")] * 3 for many in range(2, 12, 3)]
    for rest in crowded:
        for person in everybody:
            if persons == 1:
                yield [*rest, person], rest
            else:
                for other in everybody:
                    yield [*rest, person], [*rest, other]


def largest_mass(rule: TextRule, rows: int, persons: int) -> float:
    """The largest failing mass of any two neighbours, in either direction."""
    return max(
        max(failing_mass(words, other, rule), failing_mass(other, words, rule))
        for words, other in neighbours(rows, persons)
    )


CASES = [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2)]


@pytest.mark.parametrize("mechanism", [TRUNCATED_TEXTS, GAUSSIAN_TEXTS])
@pytest.mark.parametrize(("rows", "persons"), CASES)
def test_no_two_neighbours_fail_with_more_than_delta(mechanism, rows, persons):
    rule = kind_of(mechanism, rows=rows, persons=persons, delta=ONE / 20)
    assert largest_mass(rule, rows, persons) <= float(rule.spend.delta) * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", [TRUNCATED_TEXTS, GAUSSIAN_TEXTS])
def test_one_persons_text_leaves_with_probability_delta_at_most(mechanism: str) -> None:
    for rows in (1, 2, 5, 20):
        rule = kind_of(mechanism, rows=rows, persons=1, delta=ONE / 10**9)
        alone = [chance(rule, weight) * (index + 1) for index, weight in enumerate(rule.weights)]
        assert 0 < max(alone) <= 1e-9
        assert chance(rule, 0) == 0


def test_the_most_noise_is_the_least_that_delta_allows() -> None:
    for scale, delta in product(map(Fraction, ("0.5", "1", "7/3", "40")), (1e-2, 1e-4, 1e-6)):
        k, q = noise_bound(scale, Fraction(delta)), math.exp(-1 / scale)
        edge = [q**at * (1 - q) / (1 + q - 2 * q ** (at + 1)) for at in (k - 1, k)]
        assert edge[1] <= delta < edge[0]


def test_noise_reaches_its_bound_with_less_than_its_chance() -> None:
    for sigma2, part in product((Fraction(9), Fraction(250)), (1e-2, 1e-5)):
        reach = gaussian_noise_bound(sigma2, Fraction(part))
        assert 1 - gaussian_cdf(np.array([reach - 1]), sigma2)[0] <= part
        assert reach**2 >= 2 * float(sigma2) * math.log(1 / part) * (1 - 1e-12)


def test_truncated_noise_has_the_probabilities_of_the_proof() -> None:
    """A seeded chi-square test; its false-alarm rate would be 1e-8."""
    scale, most, size = Fraction(5, 2), 6, 200_000
    drawn = draw_truncated_laplace(size, scale, most, SeededNoise(3))
    q = math.exp(-1 / scale)
    pmf = np.array([q ** abs(x) for x in range(-most, most + 1)])
    seen = np.bincount(drawn + most, minlength=2 * most + 1)
    assert len(seen) == 2 * most + 1
    assert stats.chisquare(seen, size * pmf / pmf.sum()).pvalue > ALARM


def test_a_text_leaves_from_its_threshold_on() -> None:
    """The second one is without noise, but for a chance of 10^(−400)."""
    rule = rule_of()
    drawn = rule._noisy(np.zeros(10**4, dtype=np.int64), SeededNoise(3))
    assert drawn.max() == -drawn.min() == rule.threshold - 1
    exact = np.concatenate([pack_texts((b"a", b"b")), [rule.threshold, rule.threshold - 1]])
    silent = replace(rule, spend=replace(rule.spend, scale=ONE / 1000))
    assert parse_texts(silent.select(exact, SeededNoise(1))) == ("a",)


@pytest.mark.parametrize("persons", [1, 2])
def test_the_weighted_gaussian_meets_each_step_of_its_proof(persons: int) -> None:
    delta = ONE / 10**6
    for rows in (1, 2, 3, 7, 20):
        rule = kind_of(GAUSSIAN_TEXTS, rows=rows, persons=persons, delta=delta)
        variance, weights = rule.spend.scale, rule.weights
        assert rule.spend.sensitivity == persons * SINGLE_TEXT_WEIGHT**2
        assert rule.spend.sensitivity / (2 * variance) <= rho_of(ONE, delta / 2)
        for many, weight in enumerate(weights, start=1):
            assert many * weight**2 <= SINGLE_TEXT_WEIGHT**2 < many * (weight + 1) ** 2
            # A text of hers alone leaves with this chance; her texts together with δ₂.
            alone = math.exp(-((rule.threshold - weight) ** 2) / (2 * variance))
            assert many * alone <= float(delta / (2 * persons)) * (1 + 1e-9)


@by_source
@pytest.mark.parametrize("rows", [1, 30])
def test_texts_of_many_leave_and_those_of_one_person_do_not(source, rows) -> None:
    """One person's texts leave with probability 1e-9 at most."""
    rule = text_rule("t", rows=rows, persons=1, epsilon=ONE, delta=Fraction(1, 10**9), most=100)
    assert rule.spend.mechanism == (TRUNCATED_TEXTS if rows == 1 else GAUSSIAN_TEXTS)
    names = tuple(sorted(name.encode() for name in ("ö", "b", "alone", "")))
    counts = [1 if name == b"alone" else 10**6 for name in names]
    exact = np.concatenate([pack_texts(names), np.array(counts) * rule.weights[0]])
    recorder = RecordingNoise(source)
    assert parse_texts(rule.select(exact, recorder)) == ("", "b", "ö")
    assert {draw.scale for draw in recorder.draws} == {rule.spend.scale}


def test_of_too_many_texts_the_largest_leave_in_order_of_bytes() -> None:
    rule = replace(rule_of(), most=2)
    exact = np.concatenate([pack_texts((b"a", b"b", b"c", b"d")), [10**4, 10**6, 10**5, 10**6]])
    assert parse_texts(rule.select(exact, SeededNoise(1))) == ("b", "d")


def test_every_source_draws_at_the_variance_of_the_threshold() -> None:
    for epsilon in ("0.01", "0.1", "1", "3"):
        for persons in (1, 2):
            rule = rule_of(rows=50, persons=persons, epsilon=Fraction(epsilon), delta=ONE / 10**6)
            assert rule.spend.mechanism == GAUSSIAN_TEXTS
            root = root_at_least(rule.spend.scale)
            assert root**2 == rule.spend.scale
            assert Fraction(float(root)) == root


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_an_accountant_takes_the_price_and_refuses_a_cheaper_one(rows: int) -> None:
    rule = rule_of(rows=rows, delta=ONE / 10**6)
    accountant = Accountant(ONE, delta=ONE / 10**6)
    accountant.charge(rule.spend)
    accountant.require_all_spent()
    for cheaper in (
        replace(rule.spend, scale=rule.spend.scale * Fraction(9, 10)),
        replace(rule.spend, delta=Fraction(0)),
        replace(rule.spend, delta=ONE / 10**5),
    ):
        with pytest.raises(BoundaryViolation):
            Accountant(ONE, delta=ONE / 10**6).charge(cheaper)


def test_a_release_with_unspent_delta_is_refused() -> None:
    accountant = Accountant(ONE, delta=ONE / 10**5)
    accountant.charge(rule_of(delta=ONE / 10**6).spend)
    with pytest.raises(BoundaryViolation, match="exactly δ=1/100000, not 1/1000000"):
        accountant.require_all_spent()


def test_packed_texts_are_the_same_again() -> None:
    for packed in ((), (b"",), (b"", b"a", "köln".encode())):
        again, rest = unpack_texts(np.concatenate([pack_texts(packed), np.array([4, 5])]))
        assert (again, rest.tolist()) == (packed, [4, 5])
    with pytest.raises(BoundaryViolation):
        parse_texts(pack_texts((b"b", b"a")))

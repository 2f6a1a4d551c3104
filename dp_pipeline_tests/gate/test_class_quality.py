"""The bought AUC of a class table is the exact one without noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.gate.quality import private_quality
from dp_pipeline.metrics.auc import macro_auc
from dp_pipeline.results.bit_classes import BitClasses, declared_bits
from dp_pipeline.results.class_table import ClassPromise, ClassTable
from dp_pipeline.results.measurement import NoisyNumber
from dp_pipeline_tests.instruments import SILENT, curator_over
from dp_pipeline_tests.models.discrete import counter_of, dependent_rows, domain_of
from dp_pipeline_tests.populations import TOWN

SIZES = {"two labels": [2, 3, 4], "three labels": [3, 3, 4]}


def released(domain: Domain, label: str, *, least: int = 1) -> ClassTable:
    """Classes by all bits but the label's, with counts of another population."""
    names = tuple(name for name in domain.discrete if name != label)
    classes = BitClasses(declared_bits(domain, names), domain)
    noisy = np.random.default_rng(4).integers(-2, 30, (classes.size, domain[label].size))
    promise = ClassPromise(least, 1, Fraction(1, 20), noisy.shape[1], classes.size, Fraction(1, 9))
    return ClassTable.of_noisy(label, classes, noisy, promise)


TOWNS = released(TOWN, "smokes", least=20)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("least", [1, 25])
def test_without_noise_it_is_the_auc_of_the_rows(name: str, least: int) -> None:
    domain, codes = domain_of(SIZES[name]), dependent_rows(SIZES[name], 300)
    table = released(domain, "x0", least=least)
    curator = curator_over(counter_of(domain, codes), domain=domain)
    (number,) = private_quality(curator, table, epsilon=SILENT).values()
    places = table.places_of({"x1": codes[:, 1], "x2": codes[:, 2]})
    assert number.value == pytest.approx(macro_auc(table.rates[places], codes[:, 0]))
    assert number.scale < 1e-3


def with_one_withheld(rows: int, at_most: int = 1) -> NoisyNumber:
    """Of two published classes of 40 and 50 rows, and so many in a third one; K = 20 persons."""
    domain = domain_of([2, 3])
    classes = BitClasses(declared_bits(domain, ("x1",)), domain)
    promise = ClassPromise(20, 1, Fraction(1, 20), 2, classes.size, Fraction(1, 9))
    counts = {(0, 0): 10, (1, 0): 30, (0, 1): 45, (1, 1): 5}
    noisy = np.array([[10, 30], [45, 5], [0, 0]])
    table = ClassTable.of_noisy("x0", classes, noisy, promise)
    assert table.published.tolist() == [0, 1]
    codes = np.repeat([*counts, (1, 2)], [*counts.values(), rows], axis=0)
    rows_counted = counter_of(domain, codes)
    curator = curator_over(rows_counted, epsilon=SILENT, distance=at_most, domain=domain)
    (number,) = private_quality(curator, table, epsilon=SILENT).values()
    return number


def test_a_withheld_small_class_is_in_no_number() -> None:
    for at_most in (1, 3):
        without, most = with_one_withheld(0, at_most), 19 * at_most
        assert all(with_one_withheld(rows, at_most) == without for rows in (1, 7, 19, most))
        assert with_one_withheld(most + 1, at_most).value != without.value
    without, large = with_one_withheld(0), with_one_withheld(20)
    # What 20 rows may change is in the scale of the number that leaves them out.
    assert abs(large.value - without.value) < without.scale < 0.2
    assert large.scale < 1e-3


def test_without_published_classes_there_is_no_number() -> None:
    domain, codes = domain_of([2, 3, 4]), dependent_rows([2, 3, 4], 300)
    curator = curator_over(counter_of(domain, codes), domain=domain)
    numbers = private_quality(curator, released(domain, "x0", least=10**6), epsilon=SILENT)
    assert list(numbers.values()) == [NoisyNumber(0.5, 0.5, "share")]


def test_without_persons_there_is_no_number() -> None:
    numbers = private_quality(curator_over(()), TOWNS, epsilon=SILENT)
    assert numbers == {"auc_class_rate/smokes": NoisyNumber(0.5, 0.5, "share")}


@pytest.mark.parametrize("name", SIZES)
def test_its_scale_is_that_of_its_errors(name: str) -> None:
    # 400 draws: the standard deviation of the errors is known to 3.5 %, here within 4 of those.
    domain, codes = domain_of(SIZES[name]), dependent_rows(SIZES[name], 4000)
    counter, table, epsilon = counter_of(domain, codes), released(domain, "x0"), Fraction(1, 5)
    noise = SeededNoise(8)
    numbers = []
    for _ in range(400):
        curator = curator_over(counter, epsilon=epsilon, domain=domain, noise=noise)
        numbers += private_quality(curator, table, epsilon=epsilon).values()
    places = table.places_of({"x1": codes[:, 1], "x2": codes[:, 2]})
    errors = np.array([number.value for number in numbers]) - macro_auc(
        table.rates[places], codes[:, 0]
    )
    promised = np.sqrt(2) * np.mean([number.scale for number in numbers])
    assert 0.86 < errors.std() / promised < 1.14
    assert abs(errors.mean()) < 5 * promised / 20

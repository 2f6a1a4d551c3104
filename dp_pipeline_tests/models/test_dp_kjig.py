"""dp_kjig: the bits that say most, nothing unpaid, and classes that keep both claims."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Coordinate, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.tables.dp_kjig import DpKjig
from dp_pipeline.results.accountant import LAPLACE, NOISY_MAX, Accountant
from dp_pipeline.results.bit_classes import CLASS
from dp_pipeline.results.class_table import ClassTable
from dp_pipeline_tests.instruments import RecordingNoise, curator_over
from dp_pipeline_tests.models.contract import check_loss, run
from dp_pipeline_tests.models.mutants import broken
from dp_pipeline_tests.models.tables import counter_of, domain_of
from dp_pipeline_tests.populations import AWKWARD, NOBODY, TEN_PEOPLE, TOWN

LARGE = Fraction(10**4)
"""At this ε all noise is 0 with probability above 1 − 10^(−100)."""

OF_SMOKES, OF_X0 = DpKjig(label=("smokes",), bits=3), DpKjig(label=("x0",), bits=8)


def fitted(model, domain, codes, *, epsilon=LARGE) -> tuple[ClassTable, Accountant]:
    rows = np.array(codes, dtype=np.int64).reshape(-1, len(domain.names))
    curator = curator_over(counter_of(domain, rows), epsilon=epsilon, domain=domain)
    released = model.fit(curator, epsilon=epsilon, rng=np.random.default_rng(0))
    curator.accountant.require_all_spent()
    return released, curator.accountant


def names_of(table: ClassTable) -> list[str]:
    return [bit.name for bit in table.classes.bits]


def test_the_bits_that_decide_the_label_are_chosen_first() -> None:
    # Ill are those of x2 = 3, and of the others half of those with x1 = 0; x3 says nothing.
    codes = [
        (int(x2 == 3 or (x1 == 0 and (x3 + copy) % 2)), x1, x2, x3)
        for x1 in range(2)
        for x2 in range(4)
        for x3 in range(3)
        for copy in range(40)
    ]
    table, _ = fitted(DpKjig(label=("x0",), bits=2), domain_of([2, 2, 4, 3]), codes)
    assert names_of(table) == ["x2=3", "x1=1"]
    assert table.counts.tolist() == [[180, 180], [360, 0], [0, 120], [0, 120]]
    assert table.rates[:4, 1].round(1).tolist() == [0.5, 0, 1, 1]


def test_bins_have_thresholds_and_missing_is_a_level() -> None:
    bins = {"coordinate": Coordinate(0.0, 80.0), "cells": Bins.equal_width(0.0, 80.0, 8)}
    age = Attribute("age", "age", "clip", nullable=True, **bins)
    ill = Attribute("ill", "ill", "drop", cells=Levels(("no", "yes")))
    # Ill from 30 on, or not at all where the age is missing.
    codes = [(code, int(3 <= code < 8)) for code in range(9) for _ in range(20)]
    table, _ = fitted(DpKjig(label=("ill",), bits=1), Domain((age, ill)), codes)
    assert names_of(table) == ["age>=[30, 40)"]
    assert table.counts.tolist() == [[80, 0], [0, 100]]


def test_bits_of_levels_that_are_spelled_alike_are_all_on_offer() -> None:
    alike = Attribute("x1", "x1", "drop", cells=Levels(("same",) * 5))
    domain = Domain((domain_of([2])["x0"], alike))
    codes = [(int(x1 >= 3), x1) for x1 in range(5) for _ in range(40)]
    noise = RecordingNoise()
    rows = counter_of(domain, np.array(codes))
    curator = curator_over(rows, epsilon=LARGE, domain=domain, noise=noise)
    model = DpKjig(label=("x0",), bits=2)
    table = model.fit(curator, epsilon=LARGE, rng=np.random.default_rng(0))
    assert noise.draws[0].exact.shape == (5,)
    assert {bit.codes for bit in table.classes.bits} == {(3,), (4,)}
    again = ClassTable.from_tables(table.tables(), domain)
    assert again.classes == table.classes


def test_what_bits_decide_is_not_on_offer_and_is_free() -> None:
    # Three levels are told apart by two bits; the second of them is the last that splits a class
    # only while there are two to choose from.
    table, accountant = fitted(
        DpKjig(label=("x0",), bits=8), domain_of([2, 3]), [(1, 1)] * 9 + [(0, 2)] * 9
    )
    assert len(table.classes.bits) == 2
    assert table.classes.size == 3
    whats = [spend.what for spend in accountant.spends]
    assert whats == ["bit 1", "bit 2", f"marginal of x0, {CLASS}"]


def test_with_one_bit_all_of_epsilon_is_for_the_counts() -> None:
    table, accountant = fitted(OF_X0, domain_of([2, 2]), [(0, 0), (1, 1)], epsilon=Fraction(1))
    assert names_of(table) == ["x1=1"]
    assert [(spend.what, spend.epsilon) for spend in accountant.spends] == [
        (f"marginal of x0, {CLASS}", Fraction(1))
    ]
    assert table.promise.scale == 1


def test_each_bit_costs_the_same_and_the_counts_have_the_rest() -> None:
    done = run(OF_SMOKES, epsilon=Fraction(2))
    assert [spend.mechanism for spend in done.spends] == [NOISY_MAX] * 3 + [LAPLACE]
    assert [spend.epsilon for spend in done.spends] == [Fraction(14, 30)] * 3 + [Fraction(6, 10)]
    by_independence = run(replace(OF_SMOKES, score="independence"), epsilon=Fraction(2))
    sensitivities = [spend.sensitivity for spend in (*done.spends[:1], *by_independence.spends[:1])]
    assert sensitivities == [2**15, 2**17 + 1]


def count_occupied_classes(
    curator: Curator, epsilon: Fraction, sound: Callable[..., ClassTable]
) -> ClassTable:
    """Publish noise on the classes with rows alone."""
    (exact,) = curator._executor.counter.count([("smokes", "colour")])
    occupied = np.flatnonzero(exact.open_at_the_gate().sum(axis=0))
    table = sound(curator, epsilon)
    keep = np.isin(table.published, occupied)
    return replace(table, published=table.published[keep], counts=table.counts[keep])


def test_classes_that_only_the_rows_know_of_are_caught() -> None:
    kind = broken(DpKjig, count_occupied_classes)
    model = kind(label=("smokes",), attributes=("colour",), bits=2, k=1)
    with pytest.raises(AssertionError):
        for seed in range(20):
            check_loss(model, NOBODY, TEN_PEOPLE[:1], epsilon=Fraction(1), distance=1, seed=seed)


# A mutant: it publishes whatever is above the noise.
KIgnored = broken(DpKjig, lambda curator, epsilon, sound: sound(curator, epsilon, k=1))


def share_published(model: DpKjig, *, rows: int, tables: int = 3000) -> float:
    """How often a class of so many rows, of one label, is published at ε = 1 by the only bit."""
    domain = domain_of([2, 2])
    counter = counter_of(domain, np.array([(0, 0)] * rows))
    noise, often = SeededNoise(3), 0
    for _ in range(tables):
        curator = curator_over(counter, domain=domain, epsilon=Fraction(1), noise=noise)
        table = model.fit(curator, epsilon=Fraction(1), rng=np.random.default_rng(0))
        often += 0 in table.published.tolist()
    return often / tables


@pytest.mark.chain
def test_a_small_class_is_published_as_seldom_as_claimed() -> None:
    # P = .036 by convolution: of 3000 tables more than .05 with probability 4e-5. The mutant's
    # is .998.
    model = replace(OF_X0, k=12)
    assert share_published(model, rows=11) <= model.beta
    with pytest.raises(AssertionError):
        assert share_published(KIgnored(**vars(model)), rows=11, tables=100) <= model.beta


def test_k_is_of_persons_where_a_person_has_several_rows() -> None:
    alone, of_three = (
        run(replace(OF_SMOKES, k=5), epsilon=Fraction(1), distance=distance).released
        for distance in (1, 3)
    )
    assert alone.promise.least_size == 5 + alone.promise.margin
    assert of_three.promise.least_size == 4 * 3 + 1 + of_three.promise.margin
    assert of_three.promise.scale == 3 * alone.promise.scale


def test_another_k_or_beta_is_another_release() -> None:
    # Else a smaller K would publish, from the same noise, what the first bundle has withheld.
    assert texts_of(OF_SMOKES, measuring=False) == {}
    measured = {"k": "5", "beta": "1/20"}
    assert measured.items() <= texts_of(OF_SMOKES, measuring=True).items()


def test_a_class_withheld_alone_cannot_be_computed() -> None:
    # Two ill in a class of their own; all others are 200 of every kind.
    domain = domain_of([2, 3])
    codes = [(y, x) for x in (0, 1) for y in (0, 1) for _ in range(200)] + [(1, 2)] * 2
    table, _ = fitted(DpKjig(label=("x0",), bits=2), domain, codes)
    assert (table.classes.size, len(table.published)) == (3, 2)
    tables = table.tables()
    counts = tables["counts"]["rows"].reshape(2, 2)
    assert (tables["total"]["rows"] == counts.sum(axis=0)).all()
    assert counts.tolist() == [[200, 200], [200, 200]]


def test_whoever_there_is_the_first_bit_is_chosen_among_all() -> None:
    # Two thresholds of y, and three colours; neither x, which has no cells, nor the label.
    for rows in AWKWARD.values():
        noise = RecordingNoise()
        run(OF_SMOKES, rows, noise=noise)
        assert noise.draws[0].exact.shape == (5,)


@pytest.mark.parametrize(
    ("model", "domain", "why"),
    [
        (DpKjig(), TOWN, "DpKjig needs one attribute as label, not"),
        (DpKjig(label=("smokes", "y")), TOWN, "one attribute as label, not smokes y"),
        (DpKjig(label=("ill",)), TOWN, "has no attribute 'ill'"),
        (DpKjig(label=("x",)), TOWN, "has bounds but no cells: declare bins or edges for it"),
        (replace(OF_SMOKES, attributes=("x",)), TOWN, "has bounds but no cells: declare bins or"),
        (replace(OF_SMOKES, attributes=("age",)), TOWN, "attribute 'age'"),
        (replace(OF_SMOKES, attributes=("smokes",)), TOWN, "not the label, but smokes is repeated"),
        (replace(OF_SMOKES, attributes=("y", "y")), TOWN, "each attribute once .* y is repeated"),
        (OF_X0, domain_of([2]), "DpKjig needs an attribute with two or more levels"),
        (OF_X0, domain_of([2, 1, 1]), "DpKjig needs an attribute with two or more levels"),
        (OF_X0, domain_of([257, 2]), "DpKjig takes a label of at most"),
        (replace(OF_X0, bits=16), domain_of([65, 2]), "DpKjig takes at most 2.22 counts"),
        (OF_X0, domain_of([2, 2040, 9]), "bits, but its attributes have"),
    ],
)
def test_what_does_not_fit_the_declaration_is_refused(model, domain, why):
    with pytest.raises(DeclarationError, match=why) as refused:
        model.check(domain)
    assert len(str(refused.value).splitlines()) == 1

"""The class table of ``dp_kjig``: classes of rows by bits, with a noisy count of each label.

Also the promise of such a table: the noisy size from which a class is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, IntArray
from dp_pipeline.results.bit_classes import BitClasses, DeclaredBit, margin_of_sum
from dp_pipeline.results.clusters import Tables


@dataclass(frozen=True)
class ClassPromise:
    """The guarantee of a class table: a published class has (K − 1)·L + 1 + t noisy rows or more.

    k         K: persons of a published class, at least, with a probability of 1 − β
    rows      L: rows that neighbouring data sets differ by, at most, so at least as many as a
              person has; 1 where a person is one row that is added or removed
    beta      β: the largest probability with which a class of fewer than K persons is published
    labels    C: number of noisy counts that add up to a noisy size
    classes   number of classes
    scale     Laplace scale of every count, in rows

    *Proof.* Fewer than K persons have at most (K − 1)·L rows. Their class is published only if the
    C noises add up to more than t, the smallest integer with P(S > t) ≤ β. Expectations
    add up: of all classes that have so few, at most β·classes are published on average. ∎

    >>> ClassPromise(5, 1, Fraction(1, 20), 2, 256, Fraction(10)).least_size
    38
    """

    k: int
    rows: int
    beta: Fraction
    labels: int
    classes: int
    scale: Fraction

    @cached_property
    def margin(self) -> int:
        """The margin t that allows for noise, in rows."""
        return margin_of_sum(self.labels, self.scale, most=self.beta)

    @property
    def least_size(self) -> int:
        """The smallest noisy size of a published class, in rows."""
        return (self.k - 1) * self.rows + 1 + self.margin

    @property
    def most_small(self) -> Fraction:
        """An upper bound on the mean number of published classes with fewer than K persons."""
        return self.beta * self.classes

    def claims(self) -> dict[str, np.ndarray]:
        """Return a table with a row for each claim: its text, and whether it is promised."""
        few = f"fewer than {self.k} {'rows' if self.rows == 1 else 'persons'}"
        beta, most = f"{float(self.beta):g}", f"{float(self.most_small):.4g}"
        claims = (
            "All that is released here is differentially private, at the ε of the release.",
            f"A class of {few} is in these tables with a probability of at most {beta}.",
            f"At most {most} classes of {few} are in these tables on average.",
            f"No class in these tables has {few}.",
        )
        return {
            "claim": np.array(claims, dtype=np.str_),
            "promised": np.array(["yes", "yes", "yes", "no"], dtype=np.str_),
        }

    def numbers(self) -> dict[str, np.ndarray]:
        return {
            "k": np.array([self.k], dtype=np.int64),
            "rows that neighbours differ by": np.array([self.rows], dtype=np.int64),
            "beta": np.array([str(self.beta)], dtype=np.str_),
            "labels": np.array([self.labels], dtype=np.int64),
            "classes": np.array([self.classes], dtype=np.int64),
            "scale": np.array([str(self.scale)], dtype=np.str_),
            "margin": np.array([self.margin], dtype=np.int64),
            "least size": np.array([self.least_size], dtype=np.int64),
        }

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, np.ndarray]) -> ClassPromise:
        names = ("k", "rows that neighbours differ by", "labels", "classes")
        k, rows, labels, classes = (int(numbers[name][0]) for name in names)
        beta, scale = (Fraction(str(numbers[name][0])) for name in ("beta", "scale"))
        return cls(k, rows, beta, labels, classes, scale)


@dataclass(frozen=True)
class ClassTable:
    """The release of ``dp_kjig``: the classes that are large enough after noise, with their counts.

    label       the attribute with C levels that is counted
    classes     every class that the selected bits separate
    published   int64 (p,): numbers of the published classes, ascending
    counts      int64 (p, C): their noisy counts, which may be negative
    promise     the claims about published classes

    It depends on the published counts alone: the total of all classes, less the published ones,
    could be the counts of a single withheld class.
    """

    label: str
    classes: BitClasses
    published: IntArray
    counts: IntArray
    promise: ClassPromise

    @classmethod
    def of_noisy(
        cls, label: str, classes: BitClasses, noisy: IntArray, promise: ClassPromise
    ) -> ClassTable:
        """Return the table of the classes of at least ``promise.least_size`` noisy rows.

        noisy   noisy counts of all classes: (classes, C)
        """
        published = np.flatnonzero(noisy.sum(axis=1) >= promise.least_size)
        return cls(label, classes, published, noisy[published], promise)

    @property
    def total(self) -> IntArray:
        """The sum of the noisy counts of all published classes (C,)."""
        total: IntArray = self.counts.sum(axis=0)
        return total

    @property
    def places(self) -> IntArray:
        """The position of every class among the p published ones, or p: (classes,)."""
        places = np.full(self.classes.size, len(self.published))
        places[self.published] = np.arange(len(self.published))
        return places

    @property
    def rates(self) -> FloatArray:
        """The shares of the label's levels by published class, then elsewhere: (p + 1, C).

        One row with the rates of all published classes together is added to each class; these rates
        are also those of an unpublished class, and equal where none is published. A count below 0
        counts as 0."""
        total = np.maximum(self.total, 0).astype(np.float64)
        overall = total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))
        counts = np.vstack([np.maximum(self.counts, 0), np.zeros_like(self.total)]) + overall
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def places_of(self, codes: Mapping[str, NDArray[Any]]) -> IntArray:
        """Return the position in ``rates`` of each row (n,), from attribute → codes (n,)."""
        return self.places[self.classes.of(codes)]

    def tables(self) -> Tables:
        """Return the tables to store, by name.

        ``bits``: a row for each bit; ``bit_levels``: for each bit and level with the answer yes;
        ``classes``: for each published class, answers and noisy size; ``counts``: for each
        published class and level of the label; ``total``: for each level, over all published
        classes; ``claims``: for each claim; ``threshold``: the numbers behind them.
        """
        bits, domain = self.classes.bits, self.classes.domain
        levels = _texts(domain[self.label].labels())
        yes = [(i, bit, code) for i, bit in enumerate(bits) for code in bit.codes]
        return {
            "bits": {
                "bit": _texts([bit.name for bit in bits]),
                "attribute": _texts([bit.attribute for bit in bits]),
            },
            "bit_levels": {
                "bit": np.array([i for i, _, _ in yes], dtype=np.int64),
                "code": np.array([code for _, _, code in yes], dtype=np.int64),
                "level": _texts([domain[bit.attribute].labels()[code] for _, bit, code in yes]),
            },
            "classes": {
                "class": self.published,
                # With its position, so that names differ whatever levels are called.
                **{
                    f"{i} {bit.name}": self.classes.answers[self.published, i]
                    for i, bit in enumerate(bits)
                },
                "rows": self.counts.sum(axis=1),
            },
            "counts": {
                "class": np.repeat(self.published, len(levels)),
                "level": np.tile(levels, len(self.published)),
                "rows": self.counts.ravel(),
            },
            "total": {
                "attribute": np.repeat(_texts([self.label]), len(levels)),
                "level": levels,
                "rows": self.total,
            },
            "claims": self.promise.claims(),
            "threshold": self.promise.numbers(),
        }

    @classmethod
    def from_tables(cls, tables: Tables, domain: Domain) -> ClassTable:
        """Return the class table that was stored as ``tables`` under the same declaration."""
        bits, levels, total = tables["bits"], tables["bit_levels"], tables["total"]
        declared = tuple(
            DeclaredBit(name, attribute, tuple(levels["code"][levels["bit"] == i].tolist()))
            for i, (name, attribute) in enumerate(
                zip(bits["bit"].tolist(), bits["attribute"].tolist(), strict=True)
            )
        )
        published = tables["classes"]["class"]
        return cls(
            label=str(total["attribute"][0]),
            classes=BitClasses(declared, domain),
            published=published,
            counts=tables["counts"]["rows"].reshape(len(published), len(total["rows"])),
            promise=ClassPromise.from_numbers(tables["threshold"]),
        )


def _texts(values: object) -> NDArray[np.str_]:
    return np.array(values, dtype=np.str_)

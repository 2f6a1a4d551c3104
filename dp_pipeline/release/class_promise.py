"""ClassPromise: the two claims of a class table, and the size from which a class is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dp_pipeline.release.laplace_sum import margin_of_sum


@dataclass(frozen=True)
class ClassPromise:
    """A class is published if its noisy size is at least (K − 1)·L + 1 + t.

    k         persons a published class has, but for a probability of β
    rows      L: rows that neighbouring data sets differ by, at most, so no fewer than one person
              has; 1 where a person is one row that is added or removed
    beta      β: a class of fewer than K persons is published with probability β at most
    labels    C: noisy counts that a noisy size is the sum of
    classes   how many classes there are
    scale     Laplace scale of every count, in rows

    *Proof.* Fewer than K persons have at most (K − 1)·L rows. Their class is published only if the
    C noises add up to more than t, the smallest whole number with P(S > t) ≤ β. Expectations
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
        """t, in rows."""
        return margin_of_sum(self.labels, self.scale, most=self.beta)

    @property
    def least_size(self) -> int:
        """Least noisy size of a published class."""
        return (self.k - 1) * self.rows + 1 + self.margin

    @property
    def most_small(self) -> Fraction:
        """Most classes of fewer than K persons that are published, on average."""
        return self.beta * self.classes

    def claims(self) -> dict[str, np.ndarray]:
        """What is promised, what follows, and what is not promised: one row each."""
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
        """The numbers behind the claims, in one row; ``from_numbers`` reads them."""
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
        """The promise that these numbers were written of."""
        names = ("k", "rows that neighbours differ by", "labels", "classes")
        k, rows, labels, classes = (int(numbers[name][0]) for name in names)
        beta, scale = (Fraction(str(numbers[name][0])) for name in ("beta", "scale"))
        return cls(k, rows, beta, labels, classes, scale)

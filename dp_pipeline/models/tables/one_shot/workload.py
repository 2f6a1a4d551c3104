"""Workload: which pairs of attributes count for more, as a data set file declares it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, Self

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError

MOST = 1000  # the largest weight; the least is a thousandth

TARGET_WEIGHT = 4
"""Tuned: weight of every pair with an attribute to be predicted. Boosted trees then learn more (AUC
.41 → .78 on mushroom at ε = 0.2, .76 → .80 on marketing at 1), for 2 to 7 % more error of all
pairs."""


def workload_of_targets(names: Iterable[str]) -> str:
    """Return the workload text that weights the attributes to be predicted.

    >>> workload_of_targets(["income", "sex"])
    'income 4, sex 4'
    """
    return ", ".join(f"{name} {TARGET_WEIGHT}" for name in names)


@dataclass(frozen=True)
class Workload:
    """Weights of sets of one to three attributes, by which the errors of pairs of these count.

    >>> str(Workload.of("income 4,  age sex  0.5"))
    'income 4, age sex 0.5'
    """

    entries: tuple[tuple[Names, Fraction], ...] = ()

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return the workload of a text with comma-separated entries, without any for an empty
        text; None for an invalid text."""
        entries = []
        for entry in filter(None, map(str.strip, text.split(","))):
            *names, weight = entry.split()
            is_weight = re.fullmatch(r"\d{1,4}(\.\d{1,3})?", weight)
            if not is_weight or not 1 <= len(set(names)) == len(names) <= 3:
                return None
            if not 0 < Fraction(weight) <= MOST:
                return None
            entries.append((tuple(names), Fraction(weight)))
        return cls(tuple(entries))

    def __str__(self) -> str:
        return ", ".join(f"{' '.join(names)} {float(weight):g}" for names, weight in self.entries)

    def require_modelled(self, names: Iterable[str], *, of: str) -> None:
        """Raise DeclarationError if an entry has a name that is not in ``names``, the modelled
        attributes.

        of   beginning of the message, which says whose workload it is
        """
        modelled = set(names)
        for entry, _ in self.entries:
            for name in entry:
                if name not in modelled:
                    raise DeclarationError(
                        f"{of}: the workload must name modelled attributes, but {name[:60]!r} is "
                        "none: correct `workload`"
                    )

    def weights(self, names: Iterable[str]) -> FloatArray | None:
        """Return the weight of each pair's error (d, d), symmetric, in the order of ``names``; None
        if there are no entries.

        An entry of one name is about every pair with it, one of two or three names about the pairs
        of these. A pair has the product of the weights of all entries about it.

        >>> Workload.of("a 2, b c 3").weights("abc").tolist()
        [[1.0, 2.0, 2.0], [2.0, 1.0, 3.0], [2.0, 3.0, 1.0]]
        """
        if not self.entries:
            return None
        place = {name: index for index, name in enumerate(names)}
        weights = np.ones((len(place), len(place)))
        for entry, weight in self.entries:
            inside = [place[name] for name in entry if name in place]
            if len(entry) == 1 and inside:
                partners = [index for index in place.values() if index != inside[0]]
                weights[inside[0], partners] *= float(weight)
                weights[partners, inside[0]] *= float(weight)
            for first, other in combinations(inside, 2):
                weights[first, other] *= float(weight)
                weights[other, first] *= float(weight)
        return weights


def workload() -> Any:
    """Return the parameter field ``workload``: weights of pairs, a text; empty: all equal."""
    expected = "entries of one to three attributes and a weight, such as income 4, age sex 2"

    def parse(text: str) -> str | None:
        read = Workload.of(text)
        return None if read is None else str(read)

    metadata = {"parse": parse, "expected": expected, "measuring": True}
    return field(default="", metadata=metadata)

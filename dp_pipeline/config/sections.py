"""Values of single sections of a data set file: k-anonymous releases, targets, expectations and
publications.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.errors import DeclarationError

PARTITIONS = (0, 2, 5, 10, 20, 50)
"""The K that the papers use."""


@dataclass(frozen=True)
class KAnonymity:
    """The declared k-anonymous releases of a data set, a syntactic guarantee without ε.

    methods           method → its parameters, as text
    attributes        the quasi-identifiers: attributes of a person that are known from elsewhere
    partitions        the K that may be requested, ascending; 0 and 1 guarantee nothing
    sensitive_label   whether a row's label is a secret
    diversity         different labels of every class; None: the method's own rule
    suppress          share of the rows that may be left out to meet the guarantee
    seed              seed of the methods that draw

    >>> KAnonymity({"kjig": {}}, ("age", "job")).partition("5", of="adult")
    5
    """

    methods: Mapping[str, Mapping[str, str]]
    attributes: tuple[str, ...]
    partitions: tuple[int, ...] = PARTITIONS
    sensitive_label: bool = True
    diversity: int | None = None
    suppress: Fraction = Fraction(0)
    seed: int = 0

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The canonical texts of the declared K, ascending."""
        return tuple(map(str, self.partitions))

    def partition(self, text: str, *, of: str) -> int:
        """Return a declared K of data set ``of`` from its text; DeclarationError for another."""
        k = parse_k(text)
        if k not in self.partitions:
            # Sensitive rows may not list a K below 2.
            advice = "list it under `k_anonymity.partitions` to release at it" if k > 1 else ""
            raise DeclarationError(
                f"{of}: the K of a table must be one of {', '.join(self.partition_keys)}, not "
                f"{k}: {advice or 'name one of these'}"
            )
        return k


def parse_k(text: str) -> int:
    """Return a K from its text; DeclarationError unless it is an integer of at most nine digits.

    >>> parse_k("20")
    20
    """
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise DeclarationError(f"K: expected an integer from 0 to 999999999, got {text[:60]!r}")
    return int(text)


@dataclass(frozen=True)
class Target:
    """A declared binary class of rows, which a classifier predicts from the other attributes.

    attribute   an attribute with levels
    positive    the levels that mean yes: at least one, and not all
    without     attributes that classifiers must not see, because they imply the answer
    """

    attribute: str
    positive: tuple[str, ...]
    without: tuple[str, ...] = ()

    def codes(self, domain: Domain) -> tuple[int, ...]:
        """Return the codes of the positive levels, ascending; DeclarationError for other levels."""
        levels = domain[self.attribute].labels()
        if not set(self.positive) <= set(levels):
            raise DeclarationError(
                f"The positive levels of target {self.attribute!r} must be levels of that "
                "attribute: correct `targets`"
            )
        return tuple(sorted(levels.index(level) for level in self.positive))

    def inputs(self, attributes: tuple[str, ...]) -> tuple[str, ...]:
        """Return ``attributes`` but the target and those that classifiers must not see."""
        return tuple(name for name in attributes if name not in {self.attribute, *self.without})

    def classification_task(
        self, codes: Mapping[str, NDArray[Any]], domain: Domain
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return (attribute → codes that a classifier sees, whether each row is positive (n,)).

        codes   attribute → codes of rows (n,), those of the target's attribute among them
        """
        inputs = {name: codes[name] for name in self.inputs(tuple(codes))}
        return inputs, np.isin(codes[self.attribute], self.codes(domain))


Argument = float | int | bool | str | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True)
class DeclaredExpectation:
    """A declared expectation about rows, in the terms of Great Expectations.

    columns      argument that names a column → attribute, or the person's column
    arguments    argument → value, without the columns
    mostly       share of the values that have to be as expected
    is_critical  whether its failure stops rows of a benchmark; never sensitive ones
    name         distinguishes it from another of the same type and columns; may be empty
    """

    type: str
    columns: Mapping[str, str]
    arguments: Mapping[str, Argument]
    mostly: Fraction = Fraction(1)
    is_critical: bool = False
    name: str = ""


@dataclass(frozen=True)
class Publication:
    """A model and an ε that the schedule releases regularly.

    span   number of windows of each release, which is filed under the last of them
    """

    model: str
    epsilon: Fraction
    span: int = 1

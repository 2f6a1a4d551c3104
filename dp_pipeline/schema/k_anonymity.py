"""KAnonymity: which k-anonymous releases of a data set are made, declared before anyone looks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.schema.errors import DeclarationError

PARTITIONS = (0, 2, 5, 10, 20, 50)
"""The K of the papers."""


@dataclass(frozen=True)
class KAnonymity:
    """The k-anonymous releases of one data set: a syntactic promise, not a private one.

    methods           method → its parameters, as text; what there is, only ``anonymity`` knows
    attributes        the quasi-identifiers: what is known of a person from elsewhere
    partitions        the K that may be asked for, ascending; 0 and 1 promise nothing
    sensitive_label   whether a row's label is what nobody should learn
    diversity         different labels that every class must have, whichever the method;
                      None: the method's own rule
    suppress          most rows that may be left out of a release to keep the promise, as a share
    seed              of the methods that draw

    >>> KAnonymity({"kjig": {}}, ("age", "job")).partition("5")
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
        """Canonical texts of the K, ascending."""
        return tuple(map(str, self.partitions))

    def partition(self, text: str) -> int:
        """The listed K that ``text`` names; DeclarationError if it is not listed."""
        k = parse_k(text)
        if k not in self.partitions:
            raise DeclarationError(f"K: expected one of {', '.join(self.partition_keys)}, got {k}")
        return k


def parse_k(text: str) -> int:
    """Read K; DeclarationError unless ``text`` is a whole number of at most nine digits.

    >>> parse_k("20")
    20
    """
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()):
        raise DeclarationError(f"K: expected a whole number from 0 to 999999999, got {text[:60]!r}")
    return int(text)

"""BitClasses: the answers that some bits can have together. A row's class is its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.release.declared_bits import DeclaredBit
from dp_pipeline.release.derived_attribute import DerivedAttribute
from dp_pipeline.release.sparse_table import codes_of_keys
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray

CLASS = "class of answers"
"""The derived attribute; declared names have no blanks."""


@dataclass(frozen=True)
class BitClasses:
    """At most 2^m classes by m bits; fewer where two bits are about one attribute, since a number
    that is not ≥ 20 is not ≥ 40 either.

    bits     none asks nothing, and all rows are one class; a release has at least one
    domain   declared attributes

    >>> from dp_pipeline.schema.domain import Attribute
    >>> from dp_pipeline.schema.encoding import Levels
    >>> domain = Domain((Attribute("pet", "pet", "drop", cells=Levels(("cat", "dog", "none"))),))
    >>> bits = DeclaredBit("pet=cat", "pet", (0,)), DeclaredBit("pet=dog", "pet", (1,))
    >>> classes = BitClasses(bits, domain)
    >>> classes.answers.tolist(), classes.of({"pet": np.array([2, 0, 2])}).tolist()
    ([[1, 0], [0, 1], [0, 0]], [2, 0, 2])
    """

    bits: tuple[DeclaredBit, ...]
    domain: Domain

    @cached_property
    def groups(self) -> Mapping[str, tuple[int, ...]]:
        """Attribute that a bit is about → the group of each level: those with the same answers, in
        the order of the codes.
        """
        return {
            name: _groups(self.bits, name, self.domain[name].size)
            for name in dict.fromkeys(bit.attribute for bit in self.bits)
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of groups of every attribute."""
        return tuple(max(groups) + 1 for groups in self.groups.values())

    @property
    def size(self) -> int:
        """Number of classes."""
        return prod(self.shape)

    @cached_property
    def answers(self) -> IntArray:
        """1 or 0, (classes, bits)."""
        codes = codes_of_keys(np.arange(self.size), self.shape)
        table = np.empty((self.size, len(self.bits)), dtype=np.int64)
        for at, bit in enumerate(self.bits):
            groups = self.groups[bit.attribute]
            of_group = dict(zip(groups, bit.answers(len(groups)), strict=True))
            column = codes[:, list(self.groups).index(bit.attribute)]
            table[:, at] = np.array([of_group[group] for group in sorted(of_group)])[column]
        return table

    def are_split_by(self, bit: DeclaredBit) -> bool:
        """Whether two levels of one group have different answers to another bit."""
        groups = self.groups.get(bit.attribute)
        if groups is None:
            return True
        return len(set(zip(groups, bit.answers(len(groups)), strict=True))) > max(groups) + 1

    def derived_groups(self) -> dict[str, DerivedAttribute]:
        """The groups of every attribute, to be derived first."""
        return {
            _groups_of(name): DerivedAttribute((name,), groups)
            for name, groups in self.groups.items()
        }

    def derived_class(self) -> dict[str, DerivedAttribute]:
        """The class, of the groups."""
        names = tuple(_groups_of(name) for name in self.groups)
        return {CLASS: DerivedAttribute(names, tuple(range(self.size)))}

    def of(self, codes: Mapping[str, NDArray[Any]]) -> IntArray:
        """The class of every row (n,), of codes (n,) of the attributes."""
        rows = len(next(iter(codes.values())))
        found = np.zeros(rows, dtype=np.int64)
        for (name, groups), size in zip(self.groups.items(), self.shape, strict=True):
            found = found * size + np.array(groups, dtype=np.int64)[codes[name]]
        return found


def _groups(bits: tuple[DeclaredBit, ...], attribute: str, size: int) -> tuple[int, ...]:
    """The group of every level by the answers to those of the bits that are about it."""
    asked = [bit.answers(size) for bit in bits if bit.attribute == attribute]
    patterns = list(zip(*asked, strict=True)) if asked else [()] * size
    numbers = {pattern: at for at, pattern in enumerate(dict.fromkeys(patterns))}
    return tuple(numbers[pattern] for pattern in patterns)


def _groups_of(attribute: str) -> str:
    return f"groups of {attribute}"

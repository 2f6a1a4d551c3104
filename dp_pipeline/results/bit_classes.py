"""Bits (declared yes/no questions about attributes), and the classes of rows with equal answers.

Also the tail of a sum of discrete Laplace numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, log1p, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Bins, FloatArray, IntArray
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.measurement import codes_of_keys


@dataclass(frozen=True)
class DeclaredBit:
    """A yes-or-no question: whether a row's level of an attribute is one of some levels.

    name    the question, for a person; not unique, as levels may be spelled alike
    codes   of the levels with the answer yes, ascending: at least one, and not all
    """

    name: str
    attribute: str
    codes: tuple[int, ...]

    def answers(self, size: int) -> tuple[int, ...]:
        """Return the answer, 1 or 0, for every code of an attribute with ``size`` levels.

        >>> DeclaredBit("colour=red", "colour", (0,)).answers(3)
        (1, 0, 0)
        """
        yes = set(self.codes)
        return tuple(int(code in yes) for code in range(size))

    @property
    def key(self) -> str:
        """The unique name of a bit of ``declared_bits``: its attribute, first and last code."""
        return f"{self.attribute} in {self.codes[0]}..{self.codes[-1]}"

    def derived(self, domain: Domain) -> DerivedAttribute:
        """Return the answers as a derived attribute, where group 0 is no and 1 is yes."""
        return DerivedAttribute((self.attribute,), self.answers(domain[self.attribute].size))


def declared_bits(domain: Domain, attributes: tuple[str, ...]) -> tuple[DeclaredBit, ...]:
    """Return every bit of the attributes with levels or bins, from the declaration alone.

    ``x>=t`` for every bin but the first of an attribute with bins, ``x=v`` for every level of any
    other attribute, as declared levels have no order. Missing values are a level of their own,
    above no threshold. An attribute of two levels has the bit of the second alone, and one with a
    single cell has none.
    """
    bits = []
    for name in attributes:
        labels, size = domain[name].labels(), domain[name].size
        values = size - domain[name].nullable
        singles = range(int(size == 2), size)
        if isinstance(domain[name].cells, Bins):
            for code in range(1, values):
                bits.append(
                    DeclaredBit(f"{name}>={labels[code]}", name, tuple(range(code, values)))
                )
            singles = range(values, size)
        if size > 1:
            bits += [DeclaredBit(f"{name}={labels[code]}", name, (code,)) for code in singles]
    return tuple(bits)


def bit_count(domain: Domain, attributes: tuple[str, ...]) -> int:
    """Return the number of ``declared_bits``, without making them."""
    sizes = {name: domain[name].size for name in attributes}
    return sum(
        size - 1 if isinstance(domain[name].cells, Bins) or size <= 2 else size
        for name, size in sizes.items()
    )


CLASS = "class of answers"
"""The name of the attribute of the class; declared names have no blanks."""


@dataclass(frozen=True)
class BitClasses:
    """The classes of rows with equal answers to m yes/no questions, the bits: at most 2^m.

    bits     without any, all rows are one class; a release has at least one
    domain   declared attributes

    >>> from dp_pipeline.config.domain import Attribute
    >>> from dp_pipeline.config.encoding import Levels
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
        """Attribute with bits → the group of each level; levels with equal answers share one."""
        groups = {}
        for name in dict.fromkeys(bit.attribute for bit in self.bits):
            size = self.domain[name].size
            answers = [bit.answers(size) for bit in self.bits if bit.attribute == name]
            patterns = list(zip(*answers, strict=True))
            numbers = {pattern: i for i, pattern in enumerate(dict.fromkeys(patterns))}
            groups[name] = tuple(numbers[pattern] for pattern in patterns)
        return groups

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of every attribute that has bits."""
        return tuple(max(groups) + 1 for groups in self.groups.values())

    @property
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def answers(self) -> IntArray:
        """The answers of every class as 1 or 0, int (classes, bits)."""
        codes = codes_of_keys(np.arange(self.size), self.shape)
        table = np.empty((self.size, len(self.bits)), dtype=np.int64)
        for i, bit in enumerate(self.bits):
            groups = self.groups[bit.attribute]
            of_group = dict(zip(groups, bit.answers(len(groups)), strict=True))
            column = codes[:, list(self.groups).index(bit.attribute)]
            table[:, i] = np.array([of_group[group] for group in sorted(of_group)])[column]
        return table

    def are_split_by(self, bit: DeclaredBit) -> bool:
        """Return whether a further bit would separate levels that these bits do not."""
        groups = self.groups.get(bit.attribute)
        if groups is None:
            return True
        return len(set(zip(groups, bit.answers(len(groups)), strict=True))) > max(groups) + 1

    def derived_groups(self) -> dict[str, DerivedAttribute]:
        """Return ``groups of NAME`` → the groups of an attribute's levels, as derived attribute."""
        return {
            _groups_of(name): DerivedAttribute((name,), groups)
            for name, groups in self.groups.items()
        }

    def derived_class(self) -> dict[str, DerivedAttribute]:
        """Return CLASS → the class, as an attribute that is derived from ``derived_groups``."""
        names = tuple(_groups_of(name) for name in self.groups)
        return {CLASS: DerivedAttribute(names, tuple(range(self.size)))}

    def of(self, codes: Mapping[str, NDArray[Any]]) -> IntArray:
        """Return the class of every row (n,), from attribute → codes (n,)."""
        classes = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
        for (name, groups), size in zip(self.groups.items(), self.shape, strict=True):
            classes = classes * size + np.array(groups, dtype=np.int64)[codes[name]]
        return classes


def _groups_of(attribute: str) -> str:
    return f"groups of {attribute}"


ROUNDING = 1e-9
"""Share by which a tail is enlarged, which is more than the rounding errors of its floats."""


def tail_of_sum(terms: int, scale: Fraction, above: int) -> float:
    """Return P(S > above) for the sum S of ``terms`` independent discrete Laplace numbers.

    above   at least 0

    With q = e^(−1/scale), S = X − Y: X and Y are sums of C geometric numbers each, of generating
    functions u^C and v^C, u = (1 − q)/(1 − qz), v = (1 − q)/(1 − q/z). Multiplying out,
    u·v = (qz·u + v)/(1 + q): a factor v goes for a step z with probability q/(1 + q), or a factor
    u goes with 1/(1 + q), until one kind is used up. So S is C + (a sum of i geometric numbers)
    where i factors u are left, and k − (a sum of C − k of them) after k steps where none is.
    This is the convolution, of terms that are all positive: nothing cancels, and no array is as
    long as the scale is large.

    >>> round(tail_of_sum(1, Fraction(1), 0), 6), round(tail_of_sum(2, Fraction(3), 4), 6)
    (0.268941, 0.193303)
    """
    from scipy.special import betainc, betaincc, gammaln

    rate = float(1 / scale)
    q, success = exp(-rate), -expm1(-rate)
    stay = -log1p(q)
    step = stay - rate

    def mass(steps: IntArray, first: float, second: float) -> FloatArray:
        log_combinations = gammaln(terms + steps) - gammaln(terms) - gammaln(steps + 1)
        return np.asarray(np.exp(log_combinations + terms * first + steps * second))

    # A sum of i geometric numbers is at least n ≥ 1 with probability I_q(n, i), or
    # 1 − I_(1 − q)(i, n): the smaller of q and 1 − q has all its digits.
    left, steps, least = np.arange(1, terms + 1), np.arange(above + 1, terms), above - terms + 1
    exceeds = np.ones(terms)
    if least > 0:
        exceeds = betainc(least, left, q) if q < success else betaincc(left, least, success)
    is_within = betainc(terms - steps, steps - above, success)
    return float(mass(terms - left, step, stay) @ exceeds + mass(steps, stay, step) @ is_within)


def margin_of_sum(terms: int, scale: Fraction, *, most: Fraction) -> int:
    """Return the smallest integer t ≥ 0 with P(S > t) ≤ ``most``, for the sum S of ``terms``
    independent discrete Laplace numbers.

    Twice the margin of one number, 2·scale·ln(1/most), is too little where there are many: ten
    exceed it with a probability of .089, not .05.

    >>> margin_of_sum(2, Fraction(10), most=Fraction(1, 20))
    33
    """

    def is_sufficient(margin: int) -> bool:
        return tail_of_sum(terms, scale, margin) * (1 + ROUNDING) <= most

    high = 0
    while not is_sufficient(high):
        high = 2 * high + 1
    low = (high - 1) // 2
    # The last margin was too small; there is none below 0.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_sufficient(middle) else (middle, high)
    return high

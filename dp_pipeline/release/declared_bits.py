"""DeclaredBit: a question about one attribute, with the answers yes and no, made of its cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dp_pipeline.release.derived_attribute import DerivedAttribute
from dp_pipeline.schema.domain import Attribute, Domain
from dp_pipeline.schema.encoding import Bins


@dataclass(frozen=True)
class DeclaredBit:
    """Whether a row's code of an attribute is one of some codes.

    name    what is asked, for a person; levels may be spelled alike, so names may be too
    codes   those with the answer yes, ascending: at least one, and not all
    """

    name: str
    attribute: str
    codes: tuple[int, ...]

    def answers(self, size: int) -> tuple[int, ...]:
        """1 or 0 for every code of an attribute of that size.

        >>> DeclaredBit("colour=red", "colour", (0,)).answers(3)
        (1, 0, 0)
        """
        yes = set(self.codes)
        return tuple(int(code in yes) for code in range(size))

    @property
    def key(self) -> str:
        """A name that no other bit of ``declared_bits`` has: their codes have no gaps."""
        return f"{self.attribute} in {self.codes[0]}..{self.codes[-1]}"

    def derived(self, domain: Domain) -> DerivedAttribute:
        """The attribute of its answers: no is 0, yes is 1."""
        return DerivedAttribute((self.attribute,), self.answers(domain[self.attribute].size))


def declared_bits(domain: Domain, attributes: tuple[str, ...]) -> tuple[DeclaredBit, ...]:
    """What may be asked of attributes with cells, known before anyone looks.

    ``x>=t`` for every bin but the first of an attribute with bins, ``x=v`` for every level of any
    other one: declared levels have no order. Missing values are a level of their own, above no
    threshold. Of two bits of one attribute that say the contrary, the first is left out; an
    attribute with a single cell has none.
    """
    return tuple(bit for name in attributes for bit in _bits_of(domain[name]))


def bit_count(domain: Domain, attributes: tuple[str, ...]) -> int:
    """How many ``declared_bits`` there are, without making them."""
    return sum(_bit_count(domain[name]) for name in attributes)


def _bit_count(attribute: Attribute) -> int:
    size = attribute.size
    return size - 1 if isinstance(attribute.cells, Bins) or size <= 2 else size


def _bits_of(attribute: Attribute) -> Iterator[DeclaredBit]:
    name, labels, size = attribute.name, attribute.labels(), attribute.size
    values = size - attribute.nullable
    if isinstance(attribute.cells, Bins):
        for code in range(1, values):
            yield DeclaredBit(f"{name}>={labels[code]}", name, tuple(range(code, values)))
        singles = range(values, size)
    else:
        singles = range(int(size == 2), size)
    if size > 1:
        yield from (DeclaredBit(f"{name}={labels[code]}", name, (code,)) for code in singles)

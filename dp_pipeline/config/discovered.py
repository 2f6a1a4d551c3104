"""DiscoveredDomain: what looks that were paid for have said of attributes that nobody declared.

Discover: what these looks may cost, declared before anybody looks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np

from dp_pipeline.config.amounts import delta_text, epsilon_text
from dp_pipeline.config.domain import Attribute, Domain, Pieces, Protection, Undeclared
from dp_pipeline.config.encoding import Bins, Coordinate, Levels, is_interval
from dp_pipeline.config.errors import Damaged, DeclarationError

BETA = Fraction(1, 10**6)
"""Where a data set file does not say another."""


@dataclass(frozen=True)
class Discover:
    """What discovering the domain of one snapshot may cost.

    epsilon   ε of all looks together
    delta     δ of all levels together; None where no levels are discovered
    beta      chance that noise alone puts a bound where no row is, of one attribute
    """

    epsilon: Fraction
    delta: Fraction | None = None
    beta: Fraction = BETA

    def to_facts(self) -> dict[str, str]:
        """As canonical texts."""
        facts = {"epsilon": epsilon_text(self.epsilon), "beta": delta_text(self.beta)}
        return facts if self.delta is None else {**facts, "delta": delta_text(self.delta)}


def discovery_words(names: Iterable[str], price: Discover) -> str:
    """What was discovered and for how much.

    >>> discovery_words(["zone", "fare"], Discover(Fraction(1, 10), Fraction(1, 10**9)))
    'zone, fare for ε=0.1 and δ=1e-9'
    """
    return f"{', '.join(names)} for {discovery_price(price)}"


def discovery_price(price: Discover) -> str:
    """What a discovery costs, in words."""
    delta = "" if price.delta is None else f" and δ={delta_text(price.delta)}"
    return f"ε={epsilon_text(price.epsilon)}{delta}"


class Undiscovered(Protocol):
    """What a discovery is told: a data set, or the fit of an estimator. All of it public."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def domain(self) -> Domain:
        """Attributes, some of which leave something open."""
        ...

    @property
    def discover(self) -> Discover | None:
        """What it may cost."""
        ...

    @property
    def to_discover(self) -> tuple[str, ...]:
        """Names of the attributes that leave something open."""
        ...

    @property
    def protection(self) -> Protection:
        """What one person is."""
        ...

    @property
    def distance(self) -> int:
        """Rows that two neighbouring data sets differ by, at most."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the rows that are read."""
        ...


@dataclass(frozen=True)
class DiscoveredAttribute:
    """What was discovered of one attribute; nothing of what was declared.

    bounds   lowest and highest value
    edges    cuts of bins, ascending and strictly inside the bounds; () is one bin
    levels   texts in their order, at least two
    pieces   (start, rows): about how many rows there are from each of these places on, ascending;
             the first is the lower bound. Synthetic numbers are drawn by them inside their bins
    """

    bounds: tuple[float, float] | None = None
    edges: tuple[float, ...] | None = None
    levels: tuple[str, ...] | None = None
    pieces: Pieces | None = None

    def to_fact(self) -> str:
        """JSON text, from which ``from_fact`` makes the same again, to the last digit."""
        said = {name: getattr(self, name) for name in ("bounds", "edges", "levels", "pieces")}
        return json.dumps({name: one for name, one in said.items() if one is not None})

    @classmethod
    def from_fact(cls, text: str) -> DiscoveredAttribute:
        """Read what ``to_fact`` wrote; Damaged for anything else.

        >>> DiscoveredAttribute.from_fact(DiscoveredAttribute(bounds=(0.0, 0.1)).to_fact())
        DiscoveredAttribute(bounds=(0.0, 0.1), edges=None, levels=None, pieces=None)
        """
        try:
            said = {name: tuple(one) for name, one in json.loads(text).items()}
            if "pieces" in said:
                said["pieces"] = tuple((start, rows) for start, rows in said["pieces"])
            found = cls(**said)
        except (ValueError, TypeError, AttributeError):
            raise Damaged("discovered domain: expected what was stored, got other text") from None
        pairs = (one for pair in found.pieces or () for one in pair)
        numbers = (*(found.bounds or ()), *(found.edges or ()), *pairs)
        is_sound = len(found.bounds or (0, 0)) == 2
        is_sound &= all(type(one) is float for one in numbers)
        is_sound &= all(type(one) is str for one in found.levels or ())
        if not is_sound:
            raise Damaged("discovered domain: expected what was stored, got other values")
        return found


@dataclass(frozen=True)
class DiscoveredDomain:
    """What was discovered, attribute by attribute, in the order of the declaration.

    >>> domain = DiscoveredDomain((("age", DiscoveredAttribute(bounds=(16.0, 128.0))),))
    >>> DiscoveredDomain.from_facts(domain.to_facts()) == domain
    True
    """

    attributes: tuple[tuple[str, DiscoveredAttribute], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of which something was discovered."""
        return tuple(name for name, _ in self.attributes)

    def __getitem__(self, name: str) -> DiscoveredAttribute:
        return dict(self.attributes)[name]

    def to_facts(self) -> dict[str, str]:
        """Attribute → JSON text."""
        return {name: found.to_fact() for name, found in self.attributes}

    @classmethod
    def from_facts(cls, facts: Mapping[str, str]) -> DiscoveredDomain:
        """What ``to_facts`` said; Damaged for anything else. The order is that of the mapping."""
        return cls(
            tuple((name, DiscoveredAttribute.from_fact(text)) for name, text in facts.items())
        )

    @property
    def digest(self) -> str:
        """Hex digest of everything that was found, whatever the order of attributes."""
        text = json.dumps(self.to_facts(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def declared(attribute: Attribute, found: DiscoveredAttribute) -> Attribute:
    """The attribute as if what was found had been declared.

    DeclarationError where something else was to be found, or where it cannot be declared.
    """
    wanted = attribute.undeclared or Undeclared()
    has_what_was_wanted = (
        (found.bounds is not None) == wanted.bounds
        and (found.edges is not None) == (wanted.quantiles is not None)
        and (found.levels is not None) == (wanted.levels is not None)
    )
    if attribute.undeclared is None or not has_what_was_wanted:
        raise DeclarationError(
            f"attribute {attribute.name!r}: expected what it leaves to be discovered, got another"
        )
    if found.levels is not None:
        return replace(attribute, cells=_levels(attribute, found.levels), undeclared=None)
    interval = attribute.coordinate if found.bounds is None else Coordinate(*found.bounds)
    if interval is None or not is_interval(interval.lower, interval.upper):
        raise DeclarationError(f"attribute {attribute.name!r}: expected lower < upper, got others")
    cells, pieces = _bins(attribute, interval, wanted, found), _pieces(attribute, interval, found)
    return replace(attribute, coordinate=interval, cells=cells, pieces=pieces, undeclared=None)


def _levels(attribute: Attribute, texts: tuple[str, ...]) -> Levels:
    """With the level ``other``, whether it was found or not."""
    others = () if attribute.other is None or attribute.other in texts else (attribute.other,)
    levels = (*texts, *others)
    if len(set(levels)) != len(levels) or len(levels) < 2:
        raise DeclarationError(
            f"attribute {attribute.name!r}: expected at least two different levels, got others"
        )
    return Levels(levels)


def _bins(
    attribute: Attribute, interval: Coordinate, wanted: Undeclared, found: DiscoveredAttribute
) -> Bins | None:
    if found.edges is None:
        count = wanted.bins
        return None if count is None else Bins.equal_width(interval.lower, interval.upper, count)
    edges = (interval.lower, *found.edges, interval.upper)
    is_few = wanted.quantiles is not None and len(edges) - 1 <= wanted.quantiles
    if not is_few or not all(low < high for low, high in pairwise(edges)):
        raise DeclarationError(
            f"attribute {attribute.name!r}: expected at most {wanted.quantiles} bins between "
            "ascending edges, got others"
        )
    return Bins(edges)


def _pieces(attribute: Attribute, interval: Coordinate, found: DiscoveredAttribute) -> Pieces:
    pieces = found.pieces or ()
    starts = [start for start, _ in pieces]
    is_inside = not starts or interval.lower == starts[0] <= starts[-1] < interval.upper
    if not is_inside or sorted(set(starts)) != starts or any(rows < 0 for _, rows in pieces):
        raise DeclarationError(
            f"attribute {attribute.name!r}: expected ascending pieces inside its bounds, got others"
        )
    return pieces


def widest(attributes: Iterable[Attribute]) -> DiscoveredDomain:
    """The most cells that may be found, under names and between bounds that mean nothing."""
    return DiscoveredDomain(tuple((one.name, _widest(one)) for one in attributes))


def _widest(attribute: Attribute) -> DiscoveredAttribute:
    wanted = attribute.undeclared or Undeclared()
    if wanted.levels is not None:
        return DiscoveredAttribute(
            levels=tuple(f"level {number + 1}" for number in range(wanted.levels))
        )
    bounds = (0.0, wanted.unit) if attribute.coordinate is None else None
    edges = None
    if wanted.quantiles is not None:
        box = attribute.coordinate or Coordinate(0.0, wanted.unit)
        cuts = np.linspace(box.lower, box.upper, wanted.quantiles + 1)[1:-1]
        edges = tuple(map(float, cuts))
    return DiscoveredAttribute(bounds=bounds, edges=edges)

"""Levels, bounds and bins of attributes, discovered by private queries, and their budget."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from dp_pipeline.config.amounts import delta_text, epsilon_text, parse_delta
from dp_pipeline.config.clock import ClockBins
from dp_pipeline.config.domain import OTHER, Attribute, Domain, Pieces, Undeclared
from dp_pipeline.config.encoding import Bins, Coordinate, Levels, is_interval
from dp_pipeline.config.errors import Damaged, DeclarationError
from dp_pipeline.config.fields import NUMBER, Delta, Epsilon, Scalar, Section, require

BETA = Fraction(1, 10**6)
"""Default of ``Discover.beta``."""


class Discover(Section):
    """The cost of discovering levels, bounds and quantiles, once for each snapshot.

    epsilon  The ε of all discoveries together, in addition to the releases.
    delta    The δ of all discovered levels together; bounds and quantiles need none.
    beta     The chance that noise gives a bound beyond all rows.
    """

    epsilon: Epsilon
    delta: Delta | None = None
    beta: Annotated[Fraction, Scalar(parse_delta, "β", NUMBER)] = BETA

    def require_fitting(self, domain: Domain) -> None:
        """Raise FieldError if nothing is to be discovered, and for a δ without levels or levels
        without δ."""
        undeclared = {each.name: each.undeclared for each in domain if each.undeclared is not None}
        require(undeclared, "an attribute with `discover` or `quantiles`", "no such attribute")
        texts = [name for name, parts in undeclared.items() if not parts.is_number]
        expected = (
            f"a δ for the levels of {', '.join(texts)}, such as delta: 0.000000001; or a public "
            "list, `levels: {file: levels.txt}`; or all known levels and `other`"
        )
        require(self.delta is not None or not texts, expected, "no `delta`", "delta")
        expected = "no δ without levels to discover: bounds and quantiles need none"
        got = f"{float(self.delta or 0):g}"
        require(self.delta is None or texts, expected, got, "delta")

    def to_facts(self) -> dict[str, str]:
        """Return the canonical text of each field by name, without ``delta`` if it is None."""
        facts = {"epsilon": epsilon_text(self.epsilon), "beta": delta_text(self.beta)}
        return facts if self.delta is None else {**facts, "delta": delta_text(self.delta)}


def discovery_words(names: Iterable[str], price: Discover) -> str:
    """Return a text that names the discovered attributes and their price.

    >>> discovery_words(["zone", "fare"], Discover(epsilon="0.1", delta="1e-9"))
    'zone, fare for ε=0.1 and δ=1e-9'
    """
    return f"{', '.join(names)} for {discovery_price(price)}"


def discovery_price(price: Discover) -> str:
    """Return the price of a discovery as text, such as ε=0.1 and δ=1e-9."""
    delta = "" if price.delta is None else f" and δ={delta_text(price.delta)}"
    return f"ε={epsilon_text(price.epsilon)}{delta}"


@dataclass(frozen=True)
class DiscoveredAttribute:
    """The discovered levels, bounds or bins of one attribute; None for what was not discovered.

    bounds   lowest and highest value
    edges    cuts of bins, ascending and strictly inside the bounds; () is one bin
    levels   texts in their order; () where none has enough persons
    pieces   (start, rows): noisy number of rows from each of these places on, ascending; the first
             is the lower bound. Synthetic numbers are drawn by them inside their bins
    weak     a sentence: what noise hid, and what would have been needed; None if it hid nothing
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    bounds: tuple[float, float] | None = None
    edges: tuple[float, ...] | None = None
    levels: tuple[str, ...] | None = None
    pieces: Pieces | None = None
    weak: str | None = None

    def to_fact(self) -> str:
        """Return the attribute as JSON text, from which ``from_fact`` restores it exactly."""
        return json.dumps({name: part for name, part in vars(self).items() if part is not None})

    @classmethod
    def from_fact(cls, text: str, *, of: str = "") -> Self:
        """Return the attribute that ``to_fact`` wrote; Damaged for any other text.

        of   name of the attribute, for messages

        >>> DiscoveredAttribute.from_fact(DiscoveredAttribute(bounds=(0.0, 0.1)).to_fact())
        DiscoveredAttribute(bounds=(0.0, 0.1), edges=None, levels=None, pieces=None, weak=None)
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError:
            raise Damaged(
                f"The discovered attribute {of!r} must be stored as JSON of levels, bounds, edges "
                "and pieces, but it is other text: restore its release from a backup"
            ) from None


@dataclass(frozen=True)
class DiscoveredDomain:
    """The discovered attributes of a domain, in the order of the declaration.

    >>> domain = DiscoveredDomain((("age", DiscoveredAttribute(bounds=(16.0, 128.0))),))
    >>> DiscoveredDomain.from_facts(domain.to_facts()) == domain
    True
    """

    attributes: tuple[tuple[str, DiscoveredAttribute], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    def __getitem__(self, name: str) -> DiscoveredAttribute:
        return dict(self.attributes)[name]

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each attribute whose discovery gave too little."""
        return tuple(attribute.weak for _, attribute in self.attributes if attribute.weak)

    def to_facts(self) -> dict[str, str]:
        return {name: attribute.to_fact() for name, attribute in self.attributes}

    @classmethod
    def from_facts(cls, facts: Mapping[str, str]) -> Self:
        """Return the domain that ``to_facts`` wrote, in its order; Damaged for other texts."""
        read = DiscoveredAttribute.from_fact
        return cls(tuple((name, read(text, of=name)) for name, text in facts.items()))

    @property
    def digest(self) -> str:
        """The SHA-256 in hex of the domain, independent of the order of attributes."""
        text = json.dumps(self.to_facts(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def declare(attribute: Attribute, discovered: DiscoveredAttribute) -> Attribute:
    """Return an attribute with its discovered parts in the place of the undeclared ones.

    An attribute for which no level was discovered gets the level ``other``, so that no row is
    left out. DeclarationError for other parts than the undeclared ones, and for parts that no file
    may declare.
    """
    undeclared = attribute.undeclared or Undeclared()
    is_complete = (
        (discovered.bounds is not None) == undeclared.bounds
        and (discovered.edges is not None) == (undeclared.quantiles is not None)
        and (discovered.levels is not None) == (undeclared.levels is not None)
    )
    is_expected = attribute.undeclared is not None and is_complete
    _require(is_expected, attribute, "the parts that it leaves to be discovered")
    if discovered.levels is not None:
        levels = discovered.levels
        if not levels and attribute.other is None:
            # Without any level every row would be left out.
            attribute = replace(attribute, on_invalid="other", other=OTHER)
        if attribute.other is not None and attribute.other not in levels:
            levels = (*levels, attribute.other)
        _require(len(set(levels)) == len(levels), attribute, "different levels")
        return replace(attribute, cells=Levels(levels), undeclared=None)
    bounds = discovered.bounds
    interval = attribute.coordinate if bounds is None else Coordinate(*bounds)
    if interval is None or not is_interval(interval.lower, interval.upper):
        raise _refusal(attribute, "bounds lower < upper, within ±1e15 and wide enough")
    cells = _bins(attribute, interval, undeclared, discovered)
    pieces = discovered.pieces or ()
    starts = [start for start, _ in pieces]
    is_inside = not starts or interval.lower == starts[0] <= starts[-1] < interval.upper
    is_ascending = sorted(set(starts)) == starts and all(rows >= 0 for _, rows in pieces)
    _require(is_inside and is_ascending, attribute, "ascending pieces inside its bounds")
    return replace(attribute, coordinate=interval, cells=cells, pieces=pieces, undeclared=None)


def _refusal(attribute: Attribute, expected: str) -> DeclarationError:
    return DeclarationError(
        f"The discovered attribute {attribute.name!r} must have {expected}, but it does not: "
        "draw the domain anew, at the price of another discovery"
    )


def _require(holds: bool, attribute: Attribute, expected: str) -> None:
    if not holds:
        raise _refusal(attribute, expected)


def _bins(
    attribute: Attribute,
    interval: Coordinate,
    undeclared: Undeclared,
    discovered: DiscoveredAttribute,
) -> Bins | None:
    if discovered.edges is None:
        count = undeclared.bins
        return None if count is None else Bins.equal_width(interval.lower, interval.upper, count)
    edges = (interval.lower, *discovered.edges, interval.upper)
    clock = attribute.clock
    if clock is not None:
        first, last = int(interval.lower), int(interval.upper)
        return ClockBins.starting_at(clock, first, last, map(int, discovered.edges))
    is_few = undeclared.quantiles is not None and len(edges) - 1 <= undeclared.quantiles
    is_ascending = all(low < high for low, high in pairwise(edges))
    expected = f"at most {undeclared.quantiles} bins between ascending edges"
    _require(is_few and is_ascending, attribute, expected)
    return Bins(edges)


def widest_domain(attributes: Iterable[Attribute]) -> DiscoveredDomain:
    """Return an invented discovery, with the most levels and bins that the attributes allow."""
    return DiscoveredDomain(tuple((each.name, _widest_attribute(each)) for each in attributes))


def _widest_attribute(attribute: Attribute) -> DiscoveredAttribute:
    undeclared = attribute.undeclared or Undeclared()
    if undeclared.levels is not None:
        levels = tuple(f"level {index + 1}" for index in range(undeclared.levels))
        return DiscoveredAttribute(levels=levels)
    bounds = (0.0, undeclared.unit) if attribute.coordinate is None else None
    edges = None
    if undeclared.quantiles is not None:
        box = attribute.coordinate or Coordinate(0.0, undeclared.unit)
        cuts = np.linspace(box.lower, box.upper, undeclared.quantiles + 1)[1:-1]
        edges = tuple(map(float, cuts))
    return DiscoveredAttribute(bounds=bounds, edges=edges)

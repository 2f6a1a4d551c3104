"""A domain that nobody declared, for a synthesizer: columns that are found by looks at the rows.

What is to be discovered, and for how much, is public; every look is paid for out of the ε and δ
of the fit. What a column holds, numbers or texts, may be left open too: the types of a frame are
made from its values, so they are not asked, and a noisy count decides.

Bounds as a user writes them → the declared domain of numeric columns, or those to be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dp_pipeline.estimators.declared import DeclaredColumn
from dp_pipeline.estimators.fit import RELATION, UNIT, exact_delta, exact_epsilon
from dp_pipeline.estimators.frames import Features, stored, stored_times
from dp_pipeline.gate.discovery import Kind, discover, discover_kinds
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.attribute_parser import DISCOVER
from dp_pipeline.spec.discovered import Discover, declared, widest
from dp_pipeline.spec.domain import Attribute, Domain, Protection, Undeclared, distance
from dp_pipeline.spec.encoding import Bins, Coordinate, Levels, is_interval
from dp_pipeline.spec.errors import DeclarationError

QUANTILES = 16
AT_MOST = 1000
FINE = 0.01
"""The unit of numbers of which nobody knows whether they are whole."""

OPEN: Mapping[Kind, Undeclared] = {
    "text": Undeclared(levels=AT_MOST),
    "whole": Undeclared(bounds=True, quantiles=QUANTILES),
    "number": Undeclared(bounds=True, quantiles=QUANTILES, unit=FINE),
}
"""What is to be found of a column of which nothing is said, once it is known what it holds."""

OF_KINDS = Fraction(1, 10)
"""The part of a discovery's ε that tells numbers from texts, where that is open."""


def cost_of(value: object) -> Discover:
    """``{"epsilon": 0.1, "delta": 1e-9}``: what all looks may cost.

    DeclarationError for anything else.
    """
    if not isinstance(value, Mapping) or not {"epsilon"} <= set(value) <= {"epsilon", "delta"}:
        raise DeclarationError(
            'discover: expected {"epsilon": 0.1, "delta": 1e-9}, what discovering the columns that '
            f"leave something open may cost, got {type(value).__name__ if value else 'nothing'}"
        )
    delta = exact_delta(value["delta"], of="discover.delta") if "delta" in value else None
    return Discover(exact_epsilon(value["epsilon"], of="discover.epsilon"), delta)


def left_of(epsilon: Fraction, cost: Discover | None) -> Fraction:
    """What a discovery leaves of the ε of a fit; DeclarationError where it leaves nothing."""
    if cost is None:
        return epsilon
    if cost.epsilon >= epsilon:
        raise DeclarationError(
            f"discover: expected an ε below that of the fit, {epsilon_text(epsilon)}, "
            f"got {epsilon_text(cost.epsilon)}"
        )
    return epsilon - cost.epsilon


@dataclass(frozen=True)
class Discovery:
    """What is to be discovered of the rows of one fit: public.

    columns   declared ones, and those that leave something open
    cost      of all looks together
    """

    columns: tuple[DeclaredColumn, ...]
    cost: Discover

    def __post_init__(self) -> None:
        may_be_text = any(_may_be_text(one.attribute) for one in self.columns)
        if may_be_text and self.cost.delta is None:
            raise DeclarationError(
                'discover: expected a δ for levels, such as {"epsilon": 0.1, "delta": 1e-9}, got '
                "none"
            )
        if self.cost.delta is not None and not may_be_text:
            raise DeclarationError(
                "discover: expected no δ where no levels are discovered, got one"
            )

    @property
    def widest(self) -> tuple[DeclaredColumn, ...]:
        """The columns with as many cells as may be found, for what is checked before a look."""
        columns = [_as_kind(one, "text") for one in self.columns]
        return tuple(_declared_column(one, _widest(one.attribute)) for one in columns)

    def found(
        self, values: list[Any], noise: NoiseSource
    ) -> tuple[tuple[DeclaredColumn, ...], tuple[Spend, ...]]:
        """The columns as if what was found had been declared, and every look that was paid for.

        values   of each column, a row each

        NotDiscovered where noisy answers say too little; all of the cost is spent then.
        """
        columns = self.columns
        kinds = tuple(one.attribute.name for one in columns if is_unknown(one.attribute))
        spends: tuple[Spend, ...] = ()
        if kinds:
            paid = Accountant(self.cost.epsilon * OF_KINDS)
            known = discover_kinds(
                kinds,
                _rows(_Open(columns, self.cost), values),
                paid,
                Transcript(),
                noise,
                epsilon=paid.epsilon,
                distance=distance(UNIT, RELATION),
            )
            paid.require_all_spent()
            columns = tuple(_as_kind(one, known.get(one.attribute.name, "text")) for one in columns)
            spends = paid.spends
        left = self.cost.epsilon - sum((one.epsilon for one in spends), Fraction(0))
        # Where every column turned out to hold numbers, δ buys nothing and is not spent.
        has_texts = any(_levels_open(one.attribute) for one in columns)
        cost = replace(self.cost, epsilon=left, delta=self.cost.delta if has_texts else None)
        wanted = _Open(columns, cost)
        budget = Accountant(left, delta=cost.delta or Fraction(0))
        domain = discover(wanted, _rows(wanted, values), budget, Transcript(), noise)
        budget.require_all_spent()
        made = tuple(
            one
            if one.attribute.undeclared is None
            else _declared_column(one, declared(one.attribute, domain[one.attribute.name]))
            for one in columns
        )
        return made, (*spends, *budget.spends)

    def words_of(self, columns: tuple[DeclaredColumn, ...]) -> dict[str, dict[str, Any]]:
        """Column → what was found of it."""
        found: dict[str, dict[str, Any]] = {}
        for before, after in zip(self.columns, columns, strict=True):
            attribute = after.attribute
            if before.attribute.undeclared is None:
                continue
            if isinstance(attribute.cells, Bins) and attribute.coordinate is not None:
                bounds = (attribute.coordinate.lower, attribute.coordinate.upper)
                found[after.name] = {"bounds": bounds, "edges": attribute.cells.edges[1:-1]}
            else:
                found[after.name] = {"levels": after.levels}
        return found


@dataclass(frozen=True)
class _Open:
    """Columns of a frame as a discovery is told of them."""

    of: tuple[DeclaredColumn, ...]
    discover: Discover | None
    name: str = "discover"
    protection: Protection = UNIT

    @property
    def domain(self) -> Domain:
        return Domain(tuple(one.attribute for one in self.of))

    @property
    def to_discover(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.domain if one.undeclared is not None)

    @property
    def distance(self) -> int:
        return distance(UNIT, RELATION)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.domain.names


def is_unknown(attribute: Attribute) -> bool:
    """Whether nothing is said of it."""
    return attribute.undeclared == Undeclared()


def _levels_open(attribute: Attribute) -> bool:
    return attribute.undeclared is not None and attribute.undeclared.levels is not None


def _may_be_text(attribute: Attribute) -> bool:
    return is_unknown(attribute) or _levels_open(attribute)


def _as_kind(column: DeclaredColumn, kind: Kind) -> DeclaredColumn:
    """A column of which nothing was said, now that it is known what it holds."""
    if not is_unknown(column.attribute):
        return column
    undeclared = OPEN[kind]
    one = Attribute(column.attribute.name, column.attribute.name, "clip", undeclared=undeclared)
    if kind == "text":
        return replace(column, attribute=replace(one, on_invalid="other", other="other"))
    return replace(column, attribute=replace(one, whole=kind == "whole"))


def _widest(attribute: Attribute) -> Attribute:
    if attribute.undeclared is None:
        return attribute
    return declared(attribute, widest([attribute])[attribute.name])


def _declared_column(column: DeclaredColumn, attribute: Attribute) -> DeclaredColumn:
    """With levels as texts, as they were found."""
    if column.attribute.undeclared is None:
        return column
    levels = attribute.cells.values if isinstance(attribute.cells, Levels) else None
    return replace(column, attribute=attribute, levels=levels)


def _rows(of: _Open, values: list[Any]) -> UndeclaredRows:
    """The engine over the rows of X."""
    columns = {}
    for attribute, given in zip(of.domain, values, strict=True):
        # A truth value of a column of which nothing is said is a text.
        is_number = attribute.is_numeric and not is_unknown(attribute)
        times = attribute.clock is not None
        columns[attribute.name] = (
            stored_times(given) if times else stored(given, truth_is_number=is_number)
        )
    return UndeclaredRows.of_table(of, pa.table(columns), b"a row is a person")


def declared_domain(bounds: object, names: tuple[str, ...]) -> Domain:
    """One numeric attribute a column, clipped to its bounds.

    names    all different
    bounds   ``(low, high)`` for all columns; or one such pair a column in their order, as a
             sequence or an array (d, 2); or a mapping column name → pair

    Raises DeclarationError for anything else, and for an interval that is empty, not finite
    or too narrow for its 2^17 steps.

    >>> declared_domain((0, 1), ("x", "y")).names
    ('x', 'y')
    """
    pairs = _pairs(bounds, names)
    return Domain(tuple(_attribute(*one) for one in zip(names, pairs, strict=True)))


UNIT_OF_BOUNDS = 0.001
"""Bounds that are found are powers of two of it, or zero."""


def open_bounds(bounds: object, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns whose bounds are to be found: all, those of a mapping that says so, or none."""
    if isinstance(bounds, str) and bounds == DISCOVER:
        return names
    if not isinstance(bounds, Mapping) or set(bounds) != set(names):
        return ()
    said = {name: bounds[name] for name in names}
    return tuple(n for n, one in said.items() if isinstance(one, str) and one == DISCOVER)


def undeclared_attribute(name: str) -> Attribute:
    return Attribute(name, name, "clip", undeclared=Undeclared(bounds=True, unit=UNIT_OF_BOUNDS))


def named_bounds(bounds: object, features: Features) -> object:
    """A mapping from whole numbers that a frame calls its columns as one from their names."""
    if not isinstance(bounds, Mapping) or features.keys == features.names:
        return bounds
    return dict(zip(features.names, _listed(bounds, features.keys), strict=True))


def _listed(bounds: Mapping[Any, Any], names: tuple[Any, ...]) -> list[Any]:
    """What a mapping says of every column, in their order."""
    if set(bounds) != set(names):
        raise DeclarationError(
            f"bounds: expected a pair for each of the columns {', '.join(map(str, names))}, "
            f"got {', '.join(map(str, bounds)) or 'none'}"
        )
    return [bounds[name] for name in names]


def _pairs(bounds: object, names: tuple[str, ...]) -> list[list[float]]:
    if isinstance(bounds, Mapping):
        bounds = _listed(bounds, names)
    array = _numbers(bounds)
    if array is not None and array.shape == (2,):
        array = np.tile(array, (len(names), 1))
    if array is None or array.shape != (len(names), 2):
        raise DeclarationError(
            f"bounds: expected (low, high), or {len(names)} such pairs, "
            f"got {'no numbers' if array is None else f'numbers of shape {array.shape}'}"
        )
    pairs: list[list[float]] = array.astype(np.float64).tolist()
    return pairs


def _numbers(bounds: object) -> np.ndarray | None:
    try:
        array = np.asarray(bounds)
    except ValueError:
        return None
    return array if array.dtype.kind in "iuf" else None


def _attribute(name: str, pair: list[float]) -> Attribute:
    low, high = pair
    if not is_interval(low, high):
        raise DeclarationError(
            f"bounds: column {name!r}: expected low < high, both within ±1e15, wide enough for "
            f"2^17 steps, got ({low}, {high})"
        )
    return Attribute(name, name, "clip", coordinate=Coordinate(low, high))

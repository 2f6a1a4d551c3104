"""The discovery of columns that nobody declared, from noisy measurements of an estimator's rows.

The columns to discover and the price are public; every measurement is paid for out of the ε and δ
of the fit. Where it is open whether a column holds numbers or texts, a noisy count decides, because
the types of a frame are made from its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.attribute_parser import DEFAULT_MAX_LEVELS
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Attribute, Domain, Undeclared
from dp_pipeline.config.encoding import Bins, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.frames import stored_column
from dp_pipeline.estimators.parameters import exact_delta, exact_epsilon
from dp_pipeline.gate.discovery import Kind, discover, discover_kinds
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import Accountant, Spend
from dp_pipeline.results.transcript import Transcript

QUANTILES = 16
UNIT_OF_NUMBERS = 0.01
"""The unit of numbers that may be no integers."""

UNDECLARED_BY_KIND: Mapping[Kind, Undeclared] = {
    "text": Undeclared(levels=DEFAULT_MAX_LEVELS),
    "whole": Undeclared(bounds=True, quantiles=QUANTILES),
    "number": Undeclared(bounds=True, quantiles=QUANTILES, unit=UNIT_OF_NUMBERS),
}
"""What is discovered of a column without a declaration, by what it holds."""

KINDS_SHARE = Fraction(1, 10)
"""Share of a discovery's ε that tells numbers from texts, where that is open."""


def discovery_cost(value: object, domain: Domain, *, undeclared_words: str) -> Discover | None:
    """Return the declared cost of a discovery, such as ``{"epsilon": 0.1, "delta": 1e-9}``.

    undeclared_words   the form of a column that leaves something to discover, for the message

    None where every column is declared. DeclarationError for anything else.
    """
    if all(attribute.undeclared is None for attribute in domain):
        if value is not None:
            raise DeclarationError(f"discover: expected a column {undeclared_words}, got none")
        return None
    if not isinstance(value, Mapping) or not {"epsilon"} <= set(value) <= {"epsilon", "delta"}:
        raise DeclarationError(
            'discover: expected {"epsilon": 0.1, "delta": 1e-9}, what discovering the columns that '
            f"leave something open may cost, got {type(value).__name__ if value else 'nothing'}"
        )
    delta = exact_delta(value["delta"], of="discover.delta") if "delta" in value else None
    return Discover(exact_epsilon(value["epsilon"], of="discover.epsilon"), delta)


def epsilon_after_discovery(spec: DatasetSpec, epsilon: Fraction) -> Fraction:
    """Return the ε of a fit less the cost of discovering its domain.

    DeclarationError where nothing remains, for levels without a δ, and for a δ without levels.
    """
    cost = spec.discover
    if cost is None:
        return epsilon
    may_have_levels = any(map(_may_be_text, spec.domain))
    if may_have_levels and cost.delta is None:
        raise DeclarationError(
            'discover: expected a δ for levels, such as {"epsilon": 0.1, "delta": 1e-9}, got none'
        )
    if cost.delta is not None and not may_have_levels:
        raise DeclarationError("discover: expected no δ where no levels are discovered, got one")
    if cost.epsilon >= epsilon:
        raise DeclarationError(
            f"discover: expected an ε below that of the fit, {epsilon_text(epsilon)}, "
            f"got {epsilon_text(cost.epsilon)}"
        )
    return epsilon - cost.epsilon


def widest(spec: DatasetSpec) -> DatasetSpec:
    """Return the declaration with the most cells that a discovery may give, for early checks."""
    return _with_kinds(spec, {}).widest


def discover_domain(
    spec: DatasetSpec, values: Sequence[Any], noise: NoiseSource
) -> tuple[DatasetSpec, tuple[Spend, ...]]:
    """Return the declaration with its discovered domain, and every paid measurement.

    values   of each column, one a row

    NotDiscovered where noisy answers say too little; all of the cost is spent then.
    """
    cost, spends = spec.discover, tuple[Spend, ...]()
    assert cost is not None
    undeclared = tuple(column.name for column in spec.domain if is_undeclared(column))
    if undeclared:
        accountant = Accountant(cost.epsilon * KINDS_SHARE)
        kinds = discover_kinds(
            undeclared,
            _open_rows(spec, values),
            accountant,
            Transcript(),
            noise,
            epsilon=accountant.epsilon,
            distance=spec.distance,
        )
        accountant.require_all_spent()
        spec, spends = _with_kinds(spec, kinds), accountant.spends
    # Where every column turned out to hold numbers, δ buys nothing and is not spent.
    delta = cost.delta if any(map(_may_be_text, spec.domain)) else None
    epsilon = cost.epsilon - sum((spend.epsilon for spend in spends), Fraction(0))
    spec_of_kinds = replace(spec, discover=replace(cost, epsilon=epsilon, delta=delta))
    accountant = Accountant(epsilon, delta=delta or Fraction(0))
    rows = _open_rows(spec_of_kinds, values)
    domain = discover(spec_of_kinds, rows, accountant, Transcript(), noise)
    accountant.require_all_spent()
    return spec.with_domain(domain), (*spends, *accountant.spends)


def discovered_form(attribute: Attribute) -> dict[str, Any]:
    """Return the discovered part of a column in the form that would declare it."""
    cells, interval = attribute.cells, attribute.coordinate
    if isinstance(cells, Bins) and interval is not None:
        return {"bounds": (interval.lower, interval.upper), "edges": cells.edges[1:-1]}
    return {"levels": cells.values if isinstance(cells, Levels) else ()}


def is_undeclared(attribute: Attribute) -> bool:
    """Return whether not even the kind of values is declared."""
    return attribute.undeclared == Undeclared()


def _may_be_text(attribute: Attribute) -> bool:
    has_open_levels = attribute.undeclared is not None and attribute.undeclared.levels is not None
    return has_open_levels or is_undeclared(attribute)


def _with_kinds(spec: DatasetSpec, kinds: Mapping[str, Kind]) -> DatasetSpec:
    """Return the declaration with columns of discovered kinds; texts without a kind."""
    columns = {
        column.name: _column_of_kind(column, kinds.get(column.name, "text"))
        for column in spec.domain
        if is_undeclared(column)
    }
    return replace(spec, domain=spec.domain.with_attributes(columns))


def _column_of_kind(attribute: Attribute, kind: Kind) -> Attribute:
    column = replace(attribute, undeclared=UNDECLARED_BY_KIND[kind], is_integer=kind == "whole")
    return replace(column, on_invalid="other", other="other") if kind == "text" else column


def _open_rows(spec: DatasetSpec, values: Sequence[Any]) -> UndeclaredRows:
    """Return the counter over the rows of X."""
    pairs = zip(spec.domain, values, strict=True)
    table = pa.table({column.column: stored_column(column, series) for column, series in pairs})
    return UndeclaredRows.of_table(spec, table, b"a row is a person")

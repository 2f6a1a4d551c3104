"""A domain that nobody declared, for an estimator: columns that are found by looks at the rows.

What is to be discovered, and for how much, is public; every look is paid for out of the ε and δ
of the fit. What a column holds, numbers or texts, may be left open too: the types of a frame are
made from its values, so they are not asked, and a noisy count decides.
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
FINE = 0.01
"""The unit of numbers of which nobody knows whether they are whole."""

OPEN: Mapping[Kind, Undeclared] = {
    "text": Undeclared(levels=DEFAULT_MAX_LEVELS),
    "whole": Undeclared(bounds=True, quantiles=QUANTILES),
    "number": Undeclared(bounds=True, quantiles=QUANTILES, unit=FINE),
}
"""What is to be found of a column of which nothing is said, once it is known what it holds."""

OF_KINDS = Fraction(1, 10)
"""The part of a discovery's ε that tells numbers from texts, where that is open."""


def cost_of(value: object, domain: Domain, *, kind: str) -> Discover | None:
    """``{"epsilon": 0.1, "delta": 1e-9}``: what all looks may cost; None where every column is
    declared.

    kind   what a column would have to say for something to be discovered

    DeclarationError for anything else.
    """
    if all(attribute.undeclared is None for attribute in domain):
        if value is not None:
            raise DeclarationError(f"discover: expected a column {kind}, got none")
        return None
    if not isinstance(value, Mapping) or not {"epsilon"} <= set(value) <= {"epsilon", "delta"}:
        raise DeclarationError(
            'discover: expected {"epsilon": 0.1, "delta": 1e-9}, what discovering the columns that '
            f"leave something open may cost, got {type(value).__name__ if value else 'nothing'}"
        )
    delta = exact_delta(value["delta"], of="discover.delta") if "delta" in value else None
    return Discover(exact_epsilon(value["epsilon"], of="discover.epsilon"), delta)


def epsilon_left(spec: DatasetSpec, epsilon: Fraction) -> Fraction:
    """What the discovery of a declaration leaves of the ε of a fit.

    DeclarationError where it leaves nothing, for levels without a δ, and for a δ without levels.
    """
    cost = spec.discover
    if cost is None:
        return epsilon
    may_be_text = any(map(_may_be_text, spec.domain))
    if may_be_text and cost.delta is None:
        raise DeclarationError(
            'discover: expected a δ for levels, such as {"epsilon": 0.1, "delta": 1e-9}, got none'
        )
    if cost.delta is not None and not may_be_text:
        raise DeclarationError("discover: expected no δ where no levels are discovered, got one")
    if cost.epsilon >= epsilon:
        raise DeclarationError(
            f"discover: expected an ε below that of the fit, {epsilon_text(epsilon)}, "
            f"got {epsilon_text(cost.epsilon)}"
        )
    return epsilon - cost.epsilon


def widest(spec: DatasetSpec) -> DatasetSpec:
    """The declaration with as many cells as may be found, for what is checked before a look."""
    return _with_kinds(spec, {}).widest


def find_domain(
    spec: DatasetSpec, values: Sequence[Any], noise: NoiseSource
) -> tuple[DatasetSpec, tuple[Spend, ...]]:
    """The declaration as if what was found had been declared, and every look that was paid for.

    values   of each column, a row each

    NotDiscovered where noisy answers say too little; all of the cost is spent then.
    """
    cost, spends = spec.discover, tuple[Spend, ...]()
    assert cost is not None
    if unknown := tuple(one.name for one in spec.domain if is_unknown(one)):
        paid = Accountant(cost.epsilon * OF_KINDS)
        known = discover_kinds(
            unknown,
            _rows(spec, values),
            paid,
            Transcript(),
            noise,
            epsilon=paid.epsilon,
            distance=spec.distance,
        )
        paid.require_all_spent()
        spec, spends = _with_kinds(spec, known), paid.spends
    # Where every column turned out to hold numbers, δ buys nothing and is not spent.
    delta = cost.delta if any(map(_may_be_text, spec.domain)) else None
    left = cost.epsilon - sum((one.epsilon for one in spends), Fraction(0))
    asked = replace(spec, discover=replace(cost, epsilon=left, delta=delta))
    budget = Accountant(left, delta=delta or Fraction(0))
    found = discover(asked, _rows(asked, values), budget, Transcript(), noise)
    budget.require_all_spent()
    return spec.with_domain(found), (*spends, *budget.spends)


def discovered_words(attribute: Attribute) -> dict[str, Any]:
    """What was found of a column."""
    cells, interval = attribute.cells, attribute.coordinate
    if isinstance(cells, Bins) and interval is not None:
        return {"bounds": (interval.lower, interval.upper), "edges": cells.edges[1:-1]}
    return {"levels": cells.values if isinstance(cells, Levels) else ()}


def is_unknown(attribute: Attribute) -> bool:
    """Whether nothing is said of it."""
    return attribute.undeclared == Undeclared()


def _may_be_text(attribute: Attribute) -> bool:
    is_open = attribute.undeclared is not None and attribute.undeclared.levels is not None
    return is_open or is_unknown(attribute)


def _with_kinds(spec: DatasetSpec, kinds: Mapping[str, Kind]) -> DatasetSpec:
    """Once it is known what the columns hold of which nothing was said: else texts."""
    known = {
        one.name: _of_kind(one, kinds.get(one.name, "text"))
        for one in spec.domain
        if is_unknown(one)
    }
    return replace(spec, domain=spec.domain.with_attributes(known))


def _of_kind(attribute: Attribute, kind: Kind) -> Attribute:
    made = replace(attribute, undeclared=OPEN[kind], is_integer=kind == "whole")
    return replace(made, on_invalid="other", other="other") if kind == "text" else made


def _rows(spec: DatasetSpec, values: Sequence[Any]) -> UndeclaredRows:
    """The engine over the rows of X."""
    both = zip(spec.domain, values, strict=True)
    table = pa.table({one.column: stored_column(one, given) for one, given in both})
    return UndeclaredRows.of_table(spec, table, b"a row is a person")

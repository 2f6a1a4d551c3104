"""The discovery of columns that nobody declared, from noisy measurements of an estimator's rows.

What is to be discovered, and its price, are public; every measurement is paid for out of the ε and
δ of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dp_pipeline.config.amounts import NANO, epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import Discover
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Bins, Levels
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.estimators.parameters import exact_delta, exact_epsilon
from dp_pipeline.gate.discovery import discover
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.raw.counters.undeclared import UndeclaredRows
from dp_pipeline.results.accountant import Accountant, Spend
from dp_pipeline.results.transcript import Transcript

DEFAULT_SHARE = Fraction(1, 10)
"""The share of a fit's ε that discovers what is not declared, unless ``discover`` says another."""

DEFAULT_DELTA = Fraction(1, 10**9)
"""The δ of levels that are discovered, unless ``discover`` says another."""


def discovery_cost(
    value: object, domain: Domain, epsilon: Fraction, *, undeclared_words: str
) -> Discover | None:
    """Return the cost of a discovery: as declared, such as ``{"epsilon": 0.1, "delta": 1e-9}``, or
    a tenth of ε.

    epsilon            of the fit, of which it is a part
    undeclared_words   what a column would have to say for something to be discovered

    None where every column is declared. DeclarationError for anything else.
    """
    if all(attribute.undeclared is None for attribute in domain):
        if value is not None:
            raise DeclarationError(f"discover: expected a column {undeclared_words}, got none")
        return None
    has_levels = any(each.undeclared and not each.undeclared.is_number for each in domain)
    if value is None:
        share = Fraction(epsilon * DEFAULT_SHARE * NANO // 1, NANO)
        return Discover(share, DEFAULT_DELTA if has_levels else None)
    if not isinstance(value, Mapping) or not {"epsilon"} <= set(value) <= {"epsilon", "delta"}:
        raise DeclarationError(
            'discover: expected {"epsilon": 0.1, "delta": 1e-9}, what discovering the columns that '
            f"leave something open may cost, got {type(value).__name__}"
        )
    cost = exact_epsilon(value["epsilon"], of="discover.epsilon")
    delta = exact_delta(value.get("delta", DEFAULT_DELTA), of="discover.delta")
    if cost >= epsilon:
        raise DeclarationError(
            f"discover: expected an ε below that of the fit, {epsilon_text(epsilon)}, "
            f"got {epsilon_text(cost)}"
        )
    if has_levels and delta is None:
        raise DeclarationError("discover: expected a δ above 0, which levels need, got 0")
    # Where no column holds texts, δ buys nothing and is not spent.
    return Discover(cost, delta if has_levels else None)


def discover_domain(
    spec: DatasetSpec, rows: pa.Table, key: bytes, noise: NoiseSource
) -> tuple[DatasetSpec, tuple[Spend, ...]]:
    """Return the declaration with its discovered domain, and every paid measurement.

    rows   the declared columns, as ``rows.stored_table`` has them
    key    the secret that chooses the rows of a person
    """
    cost = spec.discover
    assert cost is not None
    accountant = Accountant(cost.epsilon, delta=cost.delta or Fraction(0))
    counter = UndeclaredRows.of_table(spec, rows, key)
    domain = discover(spec, counter, accountant, Transcript(), noise)
    accountant.require_all_spent()
    return spec.with_domain(domain), accountant.spends


def discovered_form(attribute: Attribute) -> dict[str, Any]:
    """Return what was discovered of a column, as it would be declared."""
    cells, interval, clock = attribute.cells, attribute.coordinate, attribute.clock
    if isinstance(cells, Bins) and interval is not None:
        bounds, edges = (interval.lower, interval.upper), cells.edges[1:-1]
        if clock is None:
            return {"bounds": bounds, "edges": edges}
        return {"bounds": attribute.range, "edges": tuple(map(clock.text, edges))}
    return {"levels": cells.values if isinstance(cells, Levels) else ()}

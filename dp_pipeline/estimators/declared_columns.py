"""The ``domain`` of a synthesizer as a user writes it → its declared columns. All of it public."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

from dp_pipeline.estimators.declared_bins import numeric_column
from dp_pipeline.estimators.declared_column import DeclaredColumn, refuse
from dp_pipeline.estimators.declared_levels import nominal_column
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import DeclarationError

_OF_NUMBERS = ("bounds", "bins", "edges", "integer", "nullable", "missing")
_OF_LEVELS = ("levels", "size", "other", "nullable", "missing")


def declared_columns(domain: object) -> tuple[DeclaredColumn, ...]:
    """Every column of a declaration, in its order; ``PrivateSynthesizer`` says the forms.

    Raises DeclarationError for no column, a name that is not text, and any other form.

    >>> sex, age = declared_columns({"sex": ["f", "m"], "age": {"bounds": [0, 99], "bins": 9}})
    >>> sex.levels, age.attribute.size
    (('f', 'm'), 9)
    """
    if not isinstance(domain, Mapping) or not domain:
        raise DeclarationError(
            "domain: expected a mapping of column names to levels, bins or sizes, "
            f"got {'no columns' if isinstance(domain, Mapping) else type(domain).__name__}"
        )
    for name in domain:
        if not isinstance(name, str) or not name:
            raise DeclarationError(
                f"domain: expected text as names of columns, got {type(name).__name__}"
            )
    return tuple(_column(str(name), form) for name, form in domain.items())


def domain_of(columns: tuple[DeclaredColumn, ...]) -> Domain:
    """What is measured."""
    return Domain(tuple(column.attribute for column in columns))


def _column(name: str, declared: object) -> DeclaredColumn:
    if not isinstance(declared, Mapping):
        short = "size" if isinstance(declared, Integral) else "levels"
        return nominal_column(name, {short: declared})
    numeric = not {"bounds", "bins", "edges"}.isdisjoint(declared)
    known = _OF_NUMBERS if numeric else _OF_LEVELS
    for field in declared:
        if field not in known:
            refuse(name, f"fields {', '.join(known)}", repr(field)[:62])
    return numeric_column(name, declared) if numeric else nominal_column(name, declared)

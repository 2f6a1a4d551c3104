"""The rows of X as declared: of one table, or of units and their parts. Rows live here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.config.attribute_parser import Category
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, Domain, Parts, Protection
from dp_pipeline.config.errors import DeclarationError, FieldError, require_integer
from dp_pipeline.config.parts_parser import MAX_PARTS, domain_of_parts
from dp_pipeline.estimators.column_types import complete_by_types
from dp_pipeline.estimators.declared import Columns, declared_columns, domain_of
from dp_pipeline.estimators.frames import (
    Features,
    FrameKind,
    features_of,
    frame_kind,
    require_exact_ids,
)
from dp_pipeline.estimators.parameters import name_argument
from dp_pipeline.estimators.rows import find_columns, prepare_rows, table_to_arrow
from dp_pipeline.estimators.synthetic_frames import synthetic_frame
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.raw.units import concatenate_sources, parts_of_units
from dp_pipeline.results.synthetic_table import SyntheticTable, first_parts

_KEY = b"no secret"
"""Chooses the parts of a unit that count where that protects nobody."""


@dataclass(frozen=True)
class TableForm:
    """What is public about a table of X: its columns, library and names.

    columns     the declared columns
    kind        library of the frame
    has_labels  whether X names its columns
    name        name of the table if it is one of units or of parts, else empty
    key         name of the column with the key of the unit; None for a single table
    """

    columns: Columns
    kind: FrameKind
    has_labels: bool
    name: str = ""
    key: Any = None


def declared_table(
    X: Any, features: Features, columns: Columns, *, name: str = "", key: Any = None
) -> tuple[TableForm, tuple[Any, ...]]:
    """Return the form of a table of X, and the values (n,) of each declared column and of the key
    column, if it has one.

    DeclarationError where a column is missing or has a type that is not read.
    """
    keys = [] if key is None else [key]
    values = find_columns(features, [*(column.name for column in columns), *keys])
    require_exact_ids(*values[len(columns) :])
    typed = complete_by_types(columns, values[: len(columns)])
    return TableForm(typed, frame_kind(X), features.labels is not None, name, key), values


@dataclass(frozen=True, eq=False)
class DeclaredRows:
    """The rows of X, of one table, or of a table of units and that of their parts.

    forms        the form of each table
    values       for each table the values (n,) of its declared columns, then of the column with the
                 key of the person or unit, if any
    domain       the domain of a row, which is a part where units have parts
    """

    forms: tuple[TableForm, ...]
    values: tuple[tuple[Any, ...], ...]
    domain: Domain
    protection: Protection

    @classmethod
    def of_units(cls, X: Any, domain: Any, key: Any, at_most: Any, order: Any) -> DeclaredRows:
        """Return the rows of units and their parts, whose columns are declared table by table.

        X        two frames by name, or one frame of parts, with the columns of their unit
        domain   name of a table → declaration of its columns, the units first
        key      name of the column with the key of a unit
        at_most  most parts of a unit that count, at least 2
        order    name of the column that puts the parts of a unit in order, or None

        DeclarationError for anything else, and for what a data set file with parts refuses.
        """
        is_flat = not isinstance(X, Mapping)
        names = list(domain) if isinstance(domain, Mapping) else []
        if not is_flat and len(X) != len(names) == 2:
            raise DeclarationError(
                f"X: expected the frames {' and '.join(map(str, names))} by name, as in `domain`, "
                f"got {', '.join(map(str, X)) or 'none'}"
            )
        if not is_flat and {*names} != {*X}:
            raise DeclarationError(
                f"domain: expected the columns of the frames {' and '.join(map(str, X))}, by "
                'these names, as {"households": {"region": [...]}, "persons": {"age": ...}}, got '
                f"{', '.join(map(str, names)) or type(domain).__name__}"
            )
        if key is None:
            raise DeclarationError(
                "person: expected the column that names the unit of each row, got none"
            )
        most = require_integer(at_most, of="at_most", least=2, most=MAX_PARTS)
        tables = []
        # A value that varies within a unit is missing, and so is any of one without parts.
        for name, complete in zip(names, (False, is_flat), strict=True):
            frame = X if is_flat else X[name]
            with name_argument(f"X: {name}"):
                tables.append(_table_of(str(name), frame, domain[name], key, is_complete=complete))
        forms, values = zip(*tables, strict=True)
        units, parts = forms
        declared = Parts(
            parts.name,
            domain_of(parts.columns).names,
            most,
            "" if order is None else str(order),
            "" if is_flat else str(key),
        )
        attributes = domain_of((*units.columns, *parts.columns))
        try:
            of_parts = domain_of_parts(attributes, declared, str(key))
        except FieldError as error:
            field = "order" if "order" in error.field else f"domain: {error.field[-1]!r}"
            raise DeclarationError(
                f"{field}: expected {error.expected}, got {error.got}{error.hint}"
            ) from None
        return cls(forms, values, of_parts, Protection(str(key), most, is_unit=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows as one Arrow table, such as a file gives; units and parts are separate
        rows where X is two frames."""
        key, declared = self.protection.column, self.domain.parts
        stored = [
            table_to_arrow(domain_of(form.columns), values, key)
            for form, values in zip(self.forms, self.values, strict=True)
        ]
        if declared is not None and declared.key:
            units, parts = stored
            return concatenate_sources(units, parts, declared.key)
        return pa.table({name: each[name] for each in stored for name in each.column_names})

    def codes(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Return attribute → codes (rows,) of the rows that fit the declaration, and the number of
        other rows.

        Where units have parts the rows are parts, unit by unit; a unit without parts has one row.
        """
        spec = DatasetSpec.of_domain("rows", self.domain, protection=self.protection)
        rows = prepare_rows(spec, self.to_arrow(), _KEY)
        parts, fitting, codes = self.domain.parts, rows.row_count, rows.codes
        if parts is not None:
            codes = parts_of_units(self.domain, codes)
            fitting = int((codes[SIZE] >= 1 - parts.fewest).sum())
        return codes, len(self.values[-1][0]) - fitting


def have_parts(X: Any, domain: Any) -> bool:
    """Return whether X is two frames by name, or a domain declares two tables by name.

    A column is declared by the fields of one, such as levels or bounds, and a table by its columns.

    >>> have_parts(None, {"homes": {"region": 3}, "persons": {"sex": ["f", "m"]}})
    True
    >>> have_parts(None, {"region": {"size": 3}, "sex": {"levels": ["f", "m"]}})
    False
    """
    frames = list(X.values()) if isinstance(X, Mapping) else []
    tables = list(domain.values()) if isinstance(domain, Mapping) else []
    if len(frames) == 2 and all(len(getattr(frame, "shape", ())) == 2 for frame in frames):
        return True
    return len(tables) == 2 and all(
        isinstance(table, Mapping)
        and {"levels", "bounds", "edges"}.isdisjoint(table)
        and not {*table} <= {"size", *Category.model_fields}
        for table in tables
    )


def _table_of(
    name: str, X: Any, declared: Any, key: Any, *, is_complete: bool
) -> tuple[TableForm, tuple[Any, ...]]:
    """Return the form of the table of units or of parts, and the values (n,) of its declared
    columns and of its key column.

    declared      declaration of the columns
    is_complete   whether a column of a type without missing values has no level for them

    DeclarationError for a frame without the column ``key``.
    """
    features = features_of(X)
    if key not in (features.labels or ()):
        raise DeclarationError(
            f"person: expected the column that names the unit of each row, but the frame of {name} "
            f"has no column {key!r:.60}"
        )
    columns = tuple(
        replace(column, may_close=column.may_close and is_complete)
        for column in declared_columns(declared, nullable=True)
    )
    return declared_table(X, features, columns, name=name, key=key)


def public_rows(prior: Any, forms: tuple[TableForm, ...], domain: Domain) -> PublicTable:
    """Return those of the public rows ``prior`` that fit the declared domain, as codes.

    DeclarationError as for ``X``, and if no row fits, as these rows are public.
    """
    with name_argument("prior"):
        codes, left_out = other_rows(prior, forms, domain).codes()
    if not len(next(iter(codes.values()))):
        raise DeclarationError(
            "prior: at least one public row must have declared values, but "
            + ("none has: check the declared levels and bounds" if left_out else "there is none")
        )
    return PublicTable(codes, {attribute.name: attribute.size for attribute in domain})


def other_rows(X: Any, forms: tuple[TableForm, ...], domain: Domain) -> DeclaredRows:
    """Return rows to compare with the fitted ones, of the same tables; DeclarationError unless X
    has their columns.

    forms    the form of each table in the fit
    domain   the domain of the fit
    """
    parts, names = domain.parts, [form.name for form in forms]
    frames = dict.fromkeys(names, X)
    if parts is not None and parts.key:
        frames = {str(name): frame for name, frame in X.items()} if isinstance(X, Mapping) else {}
        if {*frames} != {*names}:
            raise DeclarationError(
                f"X: expected the frames {' and '.join(names)} by name, as in the fit, got "
                f"{', '.join(frames) or type(X).__name__}"
            )
    protection = Protection()
    if parts is not None:
        protection = Protection(str(forms[0].key), parts.at_most, is_unit=True)
    values = []
    for form in forms:
        keys = [] if form.key is None else [form.key]
        names = [*(column.name for column in form.columns), *keys]
        with name_argument(f"X: {form.name}" if form.name else "X"):
            values.append(find_columns(features_of(frames[form.name]), names))
            require_exact_ids(*values[-1][len(form.columns) :])
    return DeclaredRows(forms, tuple(values), domain, protection)


def synthetic_frames(table: SyntheticTable, forms: tuple[TableForm, ...]) -> Any:
    """Return synthetic rows as a frame; for units and parts as a dict of two frames by name, with
    the key of the unit in both: 1, 2, … in the order of the units."""
    if len(forms) == 1:
        return synthetic_frame(table, forms[0].columns, forms[0].kind)
    declared = table.domain.parts
    assert declared is not None
    sizes = table.codes[:, table.attributes.index(SIZE)].astype(np.int64) + declared.fewest
    firsts = first_parts(np.maximum(1, sizes))
    keys = np.arange(1, len(firsts) + 1)
    of_units = replace(table, codes=table.codes[firsts])
    of_parts = replace(table, codes=table.codes[sizes > 0])
    owners = np.repeat(keys, sizes[firsts])
    return {
        form.name: synthetic_frame(rows, form.columns, form.kind, {form.key: numbers})
        for form, rows, numbers in zip(forms, (of_units, of_parts), (keys, owners), strict=True)
    }

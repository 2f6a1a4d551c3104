"""Two frames, of units and of their parts, such as households and persons. Rows live here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dp_pipeline.config.domain import SIZE, Domain, Parts, UnitOfParts
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parts_parser import MAX_PARTS, add_size
from dp_pipeline.estimators.column_types import columns_of_types
from dp_pipeline.estimators.declared import Columns, declared_columns
from dp_pipeline.estimators.frames import FrameKind, features_of, frame_kind, require_exact_ids
from dp_pipeline.estimators.parameters import require_integer
from dp_pipeline.estimators.rows import declared_values, stored_table
from dp_pipeline.estimators.synthetic_frames import synthetic_frame, typed_columns
from dp_pipeline.raw.units import concatenate_sources
from dp_pipeline.results.synthetic_table import SyntheticTable, first_parts


@dataclass(frozen=True)
class TableForm:
    """The public form of the table of units or of the table of parts.

    name      of the table
    key       what its frame calls the column with the key of the unit
    columns   the declared ones
    kind      library of its frame
    """

    name: str
    key: Any
    columns: Columns
    kind: FrameKind

    def frame(self, table: SyntheticTable, keys: np.ndarray) -> Any:
        """Return synthetic rows as a frame whose first column is the key (rows,) of the unit."""
        return synthetic_frame(table, self.columns, self.kind, {self.key: keys})


@dataclass(frozen=True, eq=False)
class FrameOfUnits:
    """The frame of units or of parts, as the values of its declared columns and its key."""

    form: TableForm
    values: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, X: Any, declared: Any, key: Any) -> FrameOfUnits:
        """Return the declared columns and the key of a frame; DeclarationError where one lacks."""
        features = features_of(X, typed=False)
        if key not in (features.labels or ()):
            raise DeclarationError(
                f"person: expected a column of both frames, but {name} has no column {key!r:.60}"
            )
        # Also what a type never leaves out may be missing: a unit may have no part.
        columns = tuple(
            replace(column, may_close=False) for column in declared_columns(declared, nullable=True)
        )
        if any(column.attribute.undeclared is not None for column in columns):
            raise DeclarationError(
                f"domain: expected declared columns of {name}, got one to discover: with two "
                "frames declare levels or bounds"
            )
        values = declared_values(features, [column.name for column in columns])
        columns = columns_of_types(columns, values)
        form = TableForm(name, key, columns, frame_kind(X))
        ids = declared_values(features, [key])
        require_exact_ids(*ids)
        return cls(form, (*values, *ids))

    def typed(self) -> TableForm:
        """Return the form of the table, with the types of the frame's columns."""
        columns, domain = self.form.columns, self.domain
        return replace(self.form, columns=typed_columns(columns, self.values[:-1], domain))

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return Domain(tuple(column.attribute for column in self.form.columns))

    def stored(self, key: str) -> pa.Table:
        """Return the rows in the form in which a source gives them."""
        return stored_table(self.domain, self.values, key)


@dataclass(frozen=True, eq=False)
class TwoFrames:
    """The frames of units and of their parts; at most ``at_most`` parts of a unit count."""

    units: FrameOfUnits
    parts: FrameOfUnits
    at_most: int

    @classmethod
    def of(cls, X: Mapping[str, Any], domain: Any, key: Any, at_most: Any) -> TwoFrames:
        """Return two declared frames given by name, with the units first.

        key   what both frames call the column with the key of a unit

        DeclarationError for anything else, for a column in both, and for one that is never missing.
        """
        names = list(X)
        if not isinstance(domain, Mapping) or {*domain} != {*names}:
            raise DeclarationError(
                f"domain: expected the columns of the frames {' and '.join(map(str, names))}, by "
                'these names, as {"households": {"region": [...]}, "persons": {"age": ...}}, got '
                f"{', '.join(map(str, domain)) if isinstance(domain, Mapping) else domain!r:.60}"
            )
        if key is None:
            raise DeclarationError(
                "person: expected the column of both frames that names a unit, got none"
            )
        most = require_integer(at_most, of="at_most", least=2, most=MAX_PARTS)
        units, parts = (FrameOfUnits.of(str(name), X[name], domain[name], key) for name in names)
        columns = [*units.form.columns, *parts.form.columns]
        texts = [SIZE, str(key), *(column.attribute.name for column in columns)]
        wrong_name = next((text for text in texts[2:] if texts.count(text) > 1), None)
        if wrong_name is not None:
            fault = "the key: leave it out" if wrong_name == str(key) else "in both: rename one"
            fault = "which counts the parts: rename it" if wrong_name == SIZE else fault
            raise DeclarationError(
                "domain: expected each column in one of the two frames, and none that is the key "
                f"or called {SIZE!r}, got {wrong_name!r:.60}, {fault}"
            )
        closed = next((each.name for each in columns if not each.attribute.nullable), None)
        if closed is not None:
            raise DeclarationError(
                f"domain: column {closed!r}: expected one that may be missing, as where a unit "
                "has no part, got `nullable: False`"
            )
        return cls(units, parts, most)

    @property
    def protection(self) -> UnitOfParts:
        """The protection in which all rows with one key, of both frames, are one unit."""
        return UnitOfParts(str(self.units.form.key), self.at_most)

    @property
    def domain(self) -> Domain:
        """The domain of a part: its attributes, those of its unit, and the unit's size."""
        own, key = tuple(self.parts.domain), self.protection.column
        names = tuple(each.name for each in own)
        parts = Parts(self.parts.form.name, names, self.at_most, key=key)
        return add_size(tuple(self.units.domain), own, parts, key)

    def stored(self) -> pa.Table:
        """Return the rows of both frames in the form that ``raw.units.join_parts`` reads."""
        key = self.protection.column
        return concatenate_sources(self.units.stored(key), self.parts.stored(key), key)


def are_two_frames(X: Any) -> bool:
    """Return whether X is a mapping of two names to tables."""
    tables = list(X.values()) if isinstance(X, Mapping) else []
    return len(tables) == 2 and all(len(getattr(table, "shape", ())) == 2 for table in tables)


def frames_of(table: SyntheticTable, units: TableForm, parts: TableForm) -> dict[str, Any]:
    """Return synthetic units, and their parts with the keys of their units, by name."""
    declared = table.domain.parts
    assert declared is not None
    sizes = table.codes[:, table.attributes.index(SIZE)].astype(np.int64) + declared.fewest
    firsts = first_parts(np.maximum(1, sizes))
    keys = np.arange(1, len(firsts) + 1)
    of_units = replace(table, codes=table.codes[firsts])
    of_parts = replace(table, codes=table.codes[sizes > 0])
    owners = np.repeat(keys, sizes[firsts])
    return {units.name: units.frame(of_units, keys), parts.name: parts.frame(of_parts, owners)}

"""The parameters ``domain`` and ``bounds`` of an estimator as declared columns.

Only the forms that a frame adds are read here: levels of any type, their number, edges that include
the bounds, three dots. Everything else, and each refusal, is that of a data set file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from pydantic import ValidationError

from dp_pipeline.config.attribute_parser import attribute_section
from dp_pipeline.config.domain import MISSING, Attribute, Domain, Undeclared
from dp_pipeline.config.encoding import MAX_CELLS, Levels
from dp_pipeline.config.errors import DeclarationError, FieldError
from dp_pipeline.config.fields import field_errors
from dp_pipeline.config.level_texts import DISCOVER
from dp_pipeline.config.reading_parser import DEFAULT_READING
from dp_pipeline.estimators.frames import UNKNOWN, Features, position_names, text_of

Form = Mapping[str, Any]
"""The declaration of one column, field by field."""

UNIT_OF_BOUNDS = 0.001
"""A discovered bound is zero, or a power of two times this unit, or minus that."""

_TRUTHS = {"True": "1", "1": "True", "False": "0", "0": "False"}
"""The other text of a truth value, which Python takes for a number."""


@dataclass(frozen=True)
class DeclaredColumn:
    """A declared column of a table to synthesize, completed by the type that it has in ``X``.

    levels          declared or discovered levels in code order, of the types they were written in;
                    None for numbers, for times, and before levels are discovered
    category        the pandas type of categories that declared the levels, or None
    dtype           type of the column of ``X``; None before it is known and for nested lists
    stored          Arrow type of the column of ``X`` if it holds decimals or dates, or times as
                    texts, integers or objects; else None
    label           name of the column in ``X`` if that is not a text, else None; as a text, it is
                    the attribute's name
    is_duration     whether the numbers are seconds of durations
    is_discovered   whether noisy measurements determined the bounds or levels; False before a fit
    may_close       whether the declaration leaves ``nullable`` open, so that a type of ``X``
                    without missing values gets no level for them
    """

    attribute: Attribute
    levels: tuple[Any, ...] | None = None
    category: Any = None
    dtype: Any = None
    stored: Any = None
    label: Any = None
    is_duration: bool = False
    is_discovered: bool = False
    may_close: bool = False

    @property
    def name(self) -> Any:
        """The name of the column in ``X`` and synthetic frames."""
        return self.attribute.name if self.label is None else self.label


Columns = tuple[DeclaredColumn, ...]


def domain_of(columns: Columns) -> Domain:
    return Domain(tuple(column.attribute for column in columns))


def complete_after_fit(columns: Columns, domain: Domain) -> Columns:
    """Return declared columns with the bounds and levels of ``domain``, which a fit discovered."""
    fitted_columns = []
    for column in columns:
        attribute, levels = domain[column.attribute.name], column.levels
        is_discovered = column.attribute.undeclared is not None
        if is_discovered and isinstance(attribute.cells, Levels):
            levels = attribute.cells.values
        fitted_columns.append(
            replace(column, attribute=attribute, levels=levels, is_discovered=is_discovered)
        )
    return tuple(fitted_columns)


def expand_ellipsis(domain: Any, features: Features, person: Any = None) -> Any:
    """Return a declaration in which ``...`` is replaced by the columns of X that it does not name.

    The text ``discover`` as a declaration stands for all columns; other forms are returned
    unchanged. The column called ``person`` is left out.

    The named columns are the first ones of an array; the others are called x and their position.
    DeclarationError if the declaration has one of these names.
    """
    if isinstance(domain, str) and domain == DISCOVER:
        domain = {...: DISCOVER}
    if not isinstance(domain, Mapping) or ... not in domain:
        return domain
    forms = {name: form for name, form in domain.items() if name is not ...}
    unnamed: Sequence[Any]
    if features.labels is None:
        unnamed = position_names(len(forms), len(features.columns))
        wrong = next((name for name in unnamed if name in forms), None)
        if wrong is not None:
            raise DeclarationError(
                f"domain: the names x0, x1, … are those of the other columns of X, but {wrong} is "
                "declared: rename it"
            )
    else:
        unnamed = [name for name in features.labels if name not in forms and name != person]
    return {**forms, **dict.fromkeys(unnamed, domain[...])}


def declared_columns(domain: object, *, nullable: bool = False) -> Columns:
    """Return the columns of a declaration in its order; ``PrivateSynthesizer`` lists the forms.

    domain     a mapping without ``...``, as ``expand_ellipsis`` returns it
    nullable   whether a column whose declaration leaves this open has a level of missing values

    Raises DeclarationError for no column, two names that are the same as text, and any other form.

    >>> sex, age = declared_columns({"sex": ["f", "m"], "age": {"bounds": [0, 99], "bins": 9}})
    >>> sex.levels, age.attribute.size
    (('f', 'm'), 9)
    """
    if not isinstance(domain, Mapping) or not domain:
        raise DeclarationError(
            "domain: expected a mapping of column names to levels, bins or sizes, "
            f"got {'no columns' if isinstance(domain, Mapping) else type(domain).__name__}"
        )
    texts = [str(name) for name in domain]
    if len(set(texts)) < len(texts):
        repeated = next(text for text in texts if texts.count(text) > 1)
        raise DeclarationError(
            "domain: the names of columns must differ as texts, but two are "
            f"{repeated[:60]!r}: rename one of them"
        )
    return tuple(
        replace(
            _column(str(name), form, nullable=nullable),
            label=None if isinstance(name, str) else name,
            may_close=nullable and not (isinstance(form, Mapping) and "nullable" in form),
        )
        for name, form in domain.items()
    )


def _column(name: str, declared: object, *, nullable: bool = False) -> DeclaredColumn:
    if isinstance(declared, str) and declared == DISCOVER:
        return DeclaredColumn(Attribute(name, name, "clip", undeclared=Undeclared()))
    if (
        isinstance(declared, tuple)
        and len(declared) == 2
        and all(isinstance(end, Real) and not isinstance(end, bool) for end in declared)
    ):
        # As levels, the bounds of a number would drop nearly all rows.
        low, high = declared
        bounds = f'{{"bounds": [{low}, {high}], "bins": 16}}'
        _refuse(name, f"bounds as {bounds}, or two levels as [{low}, {high}]", f"({low}, {high})")
    if not isinstance(declared, Mapping):
        declared = {"size" if isinstance(declared, Integral) else "levels": declared}
    levels: Any = declared.get("levels", ())
    if nullable and MISSING not in list(getattr(levels, "categories", levels)):
        declared = {"nullable": True, **declared}
    if "column" in declared:
        _refuse(name, "the name of its column in X as key", "`column`")
    listed: Any = declared.get("bounds")
    ends = listed if isinstance(listed, list | tuple) else ()
    is_duration = any(isinstance(end, timedelta) for end in ends)
    is_dated = any(isinstance(end, str | date) for end in ends)
    if not is_duration and (is_dated or not {"type", "every"}.isdisjoint(declared)):
        are_days = all(len(str(end)) == len("2026-10-05") for end in ends)
        is_date = are_days and declared.get("every") != "hour"
        declared = {"type": "date" if is_date else "timestamp", **declared}
    elif is_duration or {"levels", "size"}.isdisjoint(declared):
        declared = _inside(name, _in_seconds(declared))
    elif not (isinstance(levels, str) and levels == DISCOVER):
        return nominal_column(name, declared)
    return DeclaredColumn(_with_cells(name, declared), is_duration=is_duration)


def _in_seconds(form: Form) -> Form:
    def seconds(value: Any) -> Any:
        return value.total_seconds() if isinstance(value, timedelta) else value

    return {
        field: list(map(seconds, value)) if isinstance(value, list | tuple) else seconds(value)
        for field, value in form.items()
    }


def _inside(name: str, form: Form) -> Form:
    if "edges" not in form or "bins" in form:
        return form
    edges, bounds = _numbers(form["edges"]), _numbers(form.get("bounds", form["edges"]))
    least = 1 if "bounds" in form else 2
    if len(edges) < least:
        got = len(edges) or type(form["edges"]).__name__
        _refuse(name, f"a list of at least {least} numbers as `edges`", f"{got}")
    first, last = bounds[:1] == edges[:1], bounds[-1:] == edges[-1:]
    between = edges[first : len(edges) - last]
    ends = form["bounds"] if "bounds" in form else (edges[0], edges[-1])
    return {**form, "bounds": ends, "edges": between}


def _numbers(value: Any) -> list[Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        return []
    return array.tolist() if array.dtype.kind in "iuf" and array.ndim == 1 else []


def nominal_column(name: str, form: Form) -> DeclaredColumn:
    """Return the column that a form declares by ``levels`` of any type, or by ``size`` for the
    levels 0 to size − 1; DeclarationError for both, and for levels that are no texts, numbers or
    truth values."""
    if "levels" in form and "size" in form:
        _refuse(name, "levels or their number as `size`", "both")
    if "levels" in form:
        listed: Any = form["levels"]
    else:
        size = form["size"]
        count = int(size) if isinstance(size, Integral) and not isinstance(size, bool) else 0
        if not 1 <= count <= MAX_CELLS:
            _refuse(name, f"a size of 1 to {MAX_CELLS}", repr(size)[:62])
        listed = range(count)
    category = listed if getattr(listed, "name", None) == "category" else None
    values = _values(name, listed if category is None else category.categories)
    texts = [text_of(value) for value in values]
    if None in texts or UNKNOWN in texts:
        _refuse(name, "texts, numbers or truth values as levels", "a level of another type")
    truth_aliases = {
        _TRUTHS[str(text)]: text
        for value, text in zip(values, texts, strict=True)
        if text in _TRUTHS and not isinstance(value, str) and _TRUTHS[text] not in texts
    }
    section = {field: value for field, value in form.items() if field not in ("size", "other")}
    if form.get("other") is not None:
        section["other"] = text_of(form["other"]) or ""
    aliases = form.get("aliases", {})
    section["aliases"] = {**truth_aliases, **aliases} if isinstance(aliases, Mapping) else aliases
    # A file has no category of one level: nothing could be learned of it.
    section["levels"] = texts if len(texts) > 1 else [*texts, UNKNOWN]
    attribute = _with_cells(name, section)
    cells = Levels(tuple(map(str, texts)))
    return DeclaredColumn(replace(attribute, cells=cells), tuple(values), category)


def _values(name: str, listed: Any) -> list[Any]:
    # A set has another order in every process, and codes would follow it.
    is_unordered = isinstance(listed, str | bytes | dict | set | frozenset)
    if is_unordered or not hasattr(listed, "__iter__"):
        _refuse(name, "levels in their order, or a size", type(listed).__name__)
    values = list(listed.tolist() if hasattr(listed, "tolist") else listed)
    if not 1 <= len(values) <= MAX_CELLS:
        _refuse(name, f"1 to {MAX_CELLS} levels", str(len(values)))
    return values


def _with_cells(name: str, form: Form) -> Attribute:
    attribute = attribute_of(name, form, of="domain")
    if not attribute.has_cells:
        cells = "bins" if attribute.clock is None else "every, bins or edges"
        _refuse(name, f"{cells} with the bounds", "bounds alone")
    return attribute


def attribute_of(name: str, form: Form, *, of: str) -> Attribute:
    """Return the attribute called ``name`` that a form declares by fields of a data set file.

    of   name of the parameter, which DeclarationError names with the column
    """
    try:
        section = attribute_section({str(key): _as_text(name, form[key]) for key in form})
        return section.with_default(False).attribute(name, "clip", DEFAULT_READING)
    except FieldError as error:
        first = error
    except ValidationError as error:
        first = field_errors(error)[0]
    field = f" as `{'.'.join(map(str, first.field))}`" if first.field else ""
    expected, got = f"{first.expected}{field}", f"{first.got}{first.hint}"
    raise DeclarationError(f"{of}: column {name!r}: expected {expected}, got {got}")


def _as_text(name: str, value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, Mapping):
        return {str(key): _as_text(name, inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, list | tuple | range | np.ndarray):
        return [_as_text(name, inner) for inner in value]
    if isinstance(value, str | date):
        return str(value)
    if not isinstance(value, Real):
        _refuse(name, "texts, numbers, lists or mappings", type(value).__name__)
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def _refuse(name: str, expected: str, got: str) -> NoReturn:
    raise DeclarationError(f"domain: column {name!r}: expected {expected}, got {got}")


def box_domain(bounds: object, names: tuple[str, ...], keys: tuple[Any, ...] = ()) -> Domain:
    """Return the domain of numeric columns, clipped to declared or discovered bounds.

    names    of the columns, all different
    keys     what a mapping calls the columns, where that is not their names
    bounds   ``(low, high)`` for all columns; or one such pair a column in their order, as a
             sequence or an array (d, 2); or a mapping column name → pair; ``discover`` in place of
             any pair of a mapping, or of all

    Raises DeclarationError for anything else, and for an interval that is empty, not finite
    or too narrow for its 2^17 steps.

    >>> box_domain((0, 1), ("x", "y")).names
    ('x', 'y')
    """
    keys = keys or names
    if isinstance(bounds, Mapping) and set(bounds) != set(keys):
        lacking = [key for key in keys if key not in bounds]
        name = [*lacking, *(key for key in bounds if key not in keys)][0]
        fault = "has none: add it" if lacking else "is no column of X: leave it out"
        raise DeclarationError(
            f"bounds: each column of X needs a pair of bounds, but {name!r:.60} {fault}"
        )
    if isinstance(bounds, Mapping):
        pairs = [bounds[key] for key in keys]
    elif isinstance(bounds, str) and bounds == DISCOVER:
        pairs = [DISCOVER] * len(names)
    else:
        pairs = _pairs(bounds, len(names), of="bounds")
    attributes = []
    for name, key, pair in zip(names, map(str, keys), pairs, strict=True):
        if isinstance(pair, str) and pair == DISCOVER:
            form: Form = {"bounds": DISCOVER, "unit": UNIT_OF_BOUNDS}
        else:
            form = {"bounds": _pairs(pair, 1, of=f"bounds: column {key!r:.60}")[0]}
        side = attribute_of(key, form, of="bounds")
        attributes.append(replace(side, name=name, column=name))
    return Domain(tuple(attributes))


def _pairs(bounds: object, count: int, *, of: str) -> list[Any]:
    try:
        array, fault = np.asarray(bounds), "part of it is not a number"
    except ValueError:
        array, fault = np.asarray(None), "its parts differ in length"
    is_number = array.dtype.kind in "iuf"
    if is_number and array.shape == (2,):
        array = np.tile(array, (count, 1))
    if not is_number or array.shape != (count, 2):
        pairs_too = f", or {count} such pairs" if count > 1 else ""
        fault = f"it has numbers of shape {array.shape}" if is_number else fault
        raise DeclarationError(f"{of}: the value must be (low, high){pairs_too}, but {fault}")
    pairs: list[Any] = array.astype(np.float64).tolist()
    return pairs

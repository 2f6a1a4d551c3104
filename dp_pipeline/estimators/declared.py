"""Bounds with bins or edges as a user writes them → a declared column.

DeclaredColumn: what is measured of a column, and what its synthetic values look like.

The ``domain`` of a synthesizer as a user writes it → its declared columns. All of it public.

Levels, or their number, as a user writes them → a declared column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from pydantic import ValidationError

from dp_pipeline.estimators.frames import (
    ALSO_CALLED,
    UNKNOWN,
    is_rounded,
    is_whole_label,
    text_of,
)
from dp_pipeline.spec.attribute_parser import DISCOVER, Category, Moment, Numeric
from dp_pipeline.spec.domain import Attribute, Domain, Undeclared
from dp_pipeline.spec.encoding import MOST_CELLS, Bins, Coordinate, Levels, is_interval
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.fields import refusals_of

Form = Mapping[str, Any]
"""The declaration of one column, field by field."""


@dataclass(frozen=True)
class DeclaredColumn:
    """One column of a synthesizer: public.

    levels     declared levels in code order, of the types they were written in; None for a
               number in bins
    category   the pandas type of categories that declared them, or None
    dtype      of the column of ``X``; None before a fit
    label      the whole number that a frame calls it, whose text is the attribute's name; else None
    """

    attribute: Attribute
    levels: tuple[Any, ...] | None = None
    category: Any = None
    dtype: Any = None
    label: int | None = None

    @property
    def name(self) -> Any:
        """What ``X`` and synthetic frames call it."""
        return self.attribute.name if self.label is None else self.label


def refuse(name: str, expected: str, got: str) -> NoReturn:
    """DeclarationError about one column of ``domain``."""
    raise DeclarationError(f"domain: column {name!r}: expected {expected}, got {got}")


def flag(name: str, form: Form, field: str) -> bool:
    """True or False; absent means False."""
    value = form.get(field, False)
    if not isinstance(value, bool | np.bool_):
        refuse(name, f"True or False as `{field}`", type(value).__name__)
    return bool(value)


def missing_words(name: str, form: Form, *, levels: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Texts that mean a missing value, beside an empty one."""
    words = form.get("missing", ())
    if not isinstance(words, list | tuple) or not all(isinstance(one, str) for one in words):
        refuse(name, "a list of texts as `missing`", "something else")
    if words and not flag(name, form, "nullable"):
        refuse(name, "`nullable: True` beside `missing`", "it alone")
    texts = tuple(sorted({one.strip() for one in words}))
    if not set(texts).isdisjoint(levels):
        refuse(name, "texts that are no levels as `missing`", "one that is")
    return texts


def numeric_column(name: str, form: Form) -> DeclaredColumn:
    """``{"bounds": [low, high], "bins": n}``, or ``edges`` in place of bins, with ``integer``,
    ``nullable`` and ``missing``.

    Raises DeclarationError for anything else, and for an interval that is empty, not finite or
    too narrow for its 2^17 steps.
    """
    bins = _bins(name, form)
    lower, upper = bins.edges[0], bins.edges[-1]
    whole = flag(name, form, "integer")
    if whole and math.ceil(lower) > math.floor(upper):
        refuse(name, "a whole number between the bounds", "none")
    attribute = Attribute(
        name,
        name,
        "clip",
        coordinate=Coordinate(lower, upper),
        cells=bins,
        nullable=flag(name, form, "nullable"),
        whole=whole,
        missing=missing_words(name, form),
    )
    return DeclaredColumn(attribute)


def moment_column(name: str, form: Form) -> DeclaredColumn:
    """``{"bounds": ["2026-01-01", "2026-12-31"], "every": "week"}``, or ``bins`` or ``edges`` in
    place of every, with ``type``, ``zone``, ``nullable`` and ``missing``: as in a data set file.

    Bounds that are dates alone declare dates, unless ``type`` says timestamp. Raises
    DeclarationError for anything else.
    """
    said = {field: _text(name, field, value) for field, value in form.items()}
    days = all(len(str(one)) == len("2026-10-05") for one in form.get("bounds", ()))
    is_date = days and form.get("every") != "hour"
    said.setdefault("type", "date" if is_date else "timestamp")
    if {"every", "bins", "edges"}.isdisjoint(form):
        refuse(name, "every, bins or edges beside the bounds", "none of them")
    try:
        attribute = Moment.model_validate(said).attribute(name, "clip")
    except ValidationError as error:
        first = refusals_of(error)[0]
    else:
        return DeclaredColumn(attribute)
    refuse(name, f"{first.expected} as `{'.'.join(map(str, first.field))}`", first.got)


def _text(name: str, field: str, value: object) -> Any:
    """As a data set file would say it."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    if not isinstance(value, str | Integral):
        refuse(name, f"a text or a list of texts as `{field}`", type(value).__name__)
    return str(value)


def _bins(name: str, form: Form) -> Bins:
    if ("bins" in form) == ("edges" in form):
        refuse(name, "bins or edges beside the bounds", "both" if "bins" in form else "neither")
    if "bins" in form and "bounds" not in form:
        refuse(name, "bounds beside bins", "none")
    edges = _floats(name, form, "edges", at_least=1 if "bounds" in form else 2)
    bounds = _floats(name, form, "bounds", at_least=2) or (edges[0], edges[-1])
    if len(bounds) != 2 or not is_interval(*bounds):
        expected = "lower < upper, both within ±1e15, wide enough for 2^17 steps"
        refuse(name, expected, str(list(bounds))[:62])
    bins = _cut(bounds, edges) if edges else _equal_width(name, bounds, form["bins"])
    if bins.size > MOST_CELLS or any(low >= high for low, high in pairwise(bins.edges)):
        refuse(name, f"at most {MOST_CELLS} ascending bins inside the bounds", "others")
    return bins


def _cut(bounds: tuple[float, ...], edges: tuple[float, ...]) -> Bins:
    """The bounds may stand among the edges, as first and last, or not."""
    inner = edges[edges[0] == bounds[0] :]
    inner = inner[: len(inner) - (inner[-1:] == bounds[1:])]
    return Bins((bounds[0], *inner, bounds[1]))


def _equal_width(name: str, bounds: tuple[float, ...], count: object) -> Bins:
    whole = int(count) if isinstance(count, Integral) and not isinstance(count, bool) else 0
    if not 1 <= whole <= MOST_CELLS:
        refuse(name, f"1 to {MOST_CELLS} bins", repr(count)[:62])
    return Bins.equal_width(bounds[0], bounds[1], whole)


def _floats(name: str, form: Form, field: str, *, at_least: int) -> tuple[float, ...]:
    """Finite numbers; none where the field is absent."""
    if field not in form:
        return ()
    try:
        array = np.asarray(form[field])
    except ValueError:
        array = np.asarray("ragged")
    if array.dtype.kind not in "iuf" or array.ndim != 1 or len(array) < at_least:
        refuse(name, f"a list of numbers as `{field}`", "something else")
    numbers = tuple(float(number) for number in array)
    if not all(map(math.isfinite, numbers)):
        refuse(name, f"finite numbers as `{field}`", "others")
    return numbers


def nominal_column(name: str, form: Form) -> DeclaredColumn:
    """``{"levels": [...]}`` or ``{"size": n}``, with ``other``, ``nullable`` and ``missing``.

    Raises DeclarationError for anything else.
    """
    if ("levels" in form) == ("size" in form):
        refuse(name, "levels, size, or bounds with bins or edges", "none of them, or two")
    category = _category(form.get("levels"))
    values = _sized(name, form["size"]) if "size" in form else _listed(name, form["levels"])
    texts = _texts(name, values)
    other = _other(name, form, texts)
    missing = missing_words(name, form, levels=texts)
    if any(is_rounded(text) for text in (*texts, *missing)):
        refuse(name, "whole numbers between -2**53 and 2**53", "one that a float may round")
    attribute = Attribute(
        name,
        name,
        "drop" if other is None else "other",
        cells=Levels(texts),
        other=other,
        nullable=flag(name, form, "nullable"),
        missing=missing,
        aliases=_aliases(values, texts),
    )
    return DeclaredColumn(attribute, values, category)


def _sized(name: str, size: object) -> tuple[int, ...]:
    whole = int(size) if isinstance(size, Integral) and not isinstance(size, bool) else 0
    if not 1 <= whole <= MOST_CELLS:
        refuse(name, f"a size of 1 to {MOST_CELLS}", repr(size)[:62])
    return tuple(range(whole))


def _listed(name: str, levels: Any) -> tuple[Any, ...]:
    listed = levels if _category(levels) is None else levels.categories
    # A set has another order in every process, and codes would follow it.
    unordered = isinstance(listed, str | bytes | dict | set | frozenset)
    if unordered or not hasattr(listed, "__iter__"):
        refuse(name, "levels in their order, or a size", type(listed).__name__)
    values = tuple(listed.tolist() if hasattr(listed, "tolist") else listed)
    if not 1 <= len(values) <= MOST_CELLS:
        refuse(name, f"1 to {MOST_CELLS} levels", str(len(values)))
    return values


def _category(levels: Any) -> Any:
    """A pandas type of categories, or None."""
    is_type = getattr(levels, "name", None) == "category" and hasattr(levels, "ordered")
    return levels if is_type and levels.categories is not None else None


def _texts(name: str, values: tuple[Any, ...]) -> tuple[str, ...]:
    texts = [text_of(value) for value in values]
    known = tuple(text for text in texts if text not in (None, UNKNOWN))
    if len(known) < len(texts):
        refuse(name, "texts, numbers or truth values as levels", "something else")
    if len(set(known)) < len(known):
        refuse(name, "levels that differ as texts", "one of them twice")
    return known


def _other(name: str, form: Form, texts: tuple[str, ...]) -> str | None:
    if form.get("other") is None:
        return None
    other = text_of(form["other"])
    if other not in texts:
        refuse(name, "one of the levels as `other`", "another value")
    return other


def _aliases(values: tuple[Any, ...], texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """True where 1 is a level, and the other way round, unless both are."""
    called = [
        (ALSO_CALLED[text], text)
        for value, text in zip(values, texts, strict=True)
        if text in ALSO_CALLED and not isinstance(value, str)
    ]
    return tuple((alias, text) for alias, text in called if alias not in texts)


def open_column(name: str, form: Form) -> DeclaredColumn:
    """A column of which something is to be discovered, in the words of a data set file:
    ``{"levels": "discover"}``, ``{"bounds": "discover", "bins": {"quantiles": 16}}``, or bins of
    quantiles inside declared bounds. Raises DeclarationError for anything else.
    """
    kind = Category if "levels" in form else Numeric
    said = {field: _nested_text(name, field, value) for field, value in form.items()}
    try:
        attribute = kind.model_validate(said).attribute(name, "clip")
    except ValidationError as error:
        first = refusals_of(error)[0]
    else:
        if attribute.has_cells:
            return DeclaredColumn(attribute)
        refuse(name, "bins beside the bounds", "none")
    refuse(name, f"{first.expected} as `{'.'.join(map(str, first.field))}`", first.got)


def _nested_text(name: str, field: str, value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _nested_text(name, field, one) for key, one in value.items()}
    if isinstance(value, float):
        return repr(value)
    return (
        [str(one) for one in value]
        if isinstance(value, list | tuple)
        else _text(name, field, value)
    )


def _is_open(form: Form) -> bool:
    """Whether something of it is to be discovered."""
    said = (form.get("levels"), form.get("bounds"))
    of_quantiles = isinstance(form.get("bins"), Mapping)
    return of_quantiles or any(isinstance(one, str) and one == DISCOVER for one in said)


_OF_NUMBERS = ("bounds", "bins", "edges", "integer", "nullable", "missing")
_OF_MOMENTS = ("type", "bounds", "every", "bins", "edges", "zone", "nullable", "missing")
_OF_LEVELS = ("levels", "size", "other", "nullable", "missing")


def declared_columns(domain: object) -> tuple[DeclaredColumn, ...]:
    """Every column of a declaration, in its order; ``PrivateSynthesizer`` says the forms.

    Raises DeclarationError for no column, a name that is neither text nor a whole number, two that
    are the same as text, and any other form.

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
        if not isinstance(name, str) and not is_whole_label(name):
            raise DeclarationError(
                "domain: expected texts or whole numbers as names of columns, "
                f"got {type(name).__name__}"
            )
        if not str(name):
            raise DeclarationError(
                "domain: expected a name of every column, got an empty one: rename it, as "
                'X.rename(columns={"": "name"}) does'
            )
    names = [str(name) for name in domain]
    if len(set(names)) < len(names):
        raise DeclarationError("domain: expected names that differ as texts, got one twice")
    return tuple(
        replace(_column(str(name), form), label=int(name) if is_whole_label(name) else None)
        for name, form in domain.items()
    )


def domain_of(columns: tuple[DeclaredColumn, ...]) -> Domain:
    """What is measured."""
    return Domain(tuple(column.attribute for column in columns))


def _column(name: str, declared: object) -> DeclaredColumn:
    if isinstance(declared, str) and declared == DISCOVER:
        return DeclaredColumn(Attribute(name, name, "clip", undeclared=Undeclared()))
    if isinstance(declared, Mapping) and _is_open(declared):
        return open_column(name, declared)
    if isinstance(declared, tuple) and _are_bounds(declared):
        low, high = declared
        bounds = f'{{"bounds": [{low}, {high}], "bins": 16}}'
        refuse(name, f"bounds as {bounds}, or two levels as [{low}, {high}]", f"({low}, {high})")
    if not isinstance(declared, Mapping):
        short = "size" if isinstance(declared, Integral) else "levels"
        return nominal_column(name, {short: declared})
    numeric = not {"bounds", "bins", "edges"}.isdisjoint(declared)
    is_moment = _is_moment(declared)
    of_one = _OF_NUMBERS if numeric else _OF_LEVELS
    known: tuple[str, ...] = _OF_MOMENTS if is_moment else of_one
    for field in declared:
        if field not in known:
            refuse(name, f"fields {', '.join(known)}", repr(field)[:62])
    if is_moment:
        return moment_column(name, declared)
    return numeric_column(name, declared) if numeric else nominal_column(name, declared)


def _are_bounds(declared: tuple[object, ...]) -> bool:
    """Whether it is what people write for bounds: as levels it would leave nearly every row out."""
    numbers = (int, float, np.integer, np.floating)
    return len(declared) == 2 and all(
        isinstance(one, numbers) and not isinstance(one, bool) for one in declared
    )


def _is_moment(form: Form) -> bool:
    """Whether it says so, or has bounds that are texts or dates."""
    bounds = form.get("bounds", ())
    is_dated = isinstance(bounds, list | tuple) and any(
        isinstance(one, str | date) for one in bounds
    )
    return is_dated or not {"type", "every"}.isdisjoint(form)

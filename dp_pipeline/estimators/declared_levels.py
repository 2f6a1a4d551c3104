"""Levels, or their number, as a user writes them → a declared column."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from dp_pipeline.estimators.declared_column import (
    DeclaredColumn,
    Form,
    flag,
    missing_words,
    refuse,
)
from dp_pipeline.estimators.value_text import ALSO_CALLED, UNKNOWN, is_rounded, text_of
from dp_pipeline.schema.attribute_parser import MOST_CELLS
from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.encoding import Levels


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

"""DeclaredColumn: what is measured of a column, and what its synthetic values look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from dp_pipeline.schema.domain import Attribute
from dp_pipeline.schema.errors import DeclarationError

Form = Mapping[str, Any]
"""The declaration of one column, field by field."""


@dataclass(frozen=True)
class DeclaredColumn:
    """One column of a synthesizer: public.

    levels     declared levels in code order, of the types they were written in; None for a
               number in bins
    category   the pandas type of categories that declared them, or None
    """

    attribute: Attribute
    levels: tuple[Any, ...] | None = None
    category: Any = None


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

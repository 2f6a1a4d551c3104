"""Cells of a CSV file that people open in a spreadsheet: text stays text (OWASP, CSV Injection)."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters that begin a formula, or that a spreadsheet skips before one."""


def escape_formula(value: Any) -> Any:
    """Return a cell that no spreadsheet computes: a text that looks like a formula gets a ``'``.

    >>> [escape_formula(value) for value in ("=1+1", "-0.5", -0.5)]
    ["'=1+1", '-0.5', -0.5]
    """
    is_formula = (
        isinstance(value, str)
        and value.lstrip(" ").startswith(_FORMULA)
        and not _NUMBER.fullmatch(value.strip(" "))
    )
    return f"'{value}" if is_formula else value


def unescape_formula(text: str) -> str:
    """Return the text of an escaped cell; a text that only looks like one loses its ``'`` too.

    >>> unescape_formula("'=1+1"), unescape_formula("'tis"), unescape_formula("-0.5")
    ('=1+1', "'tis", '-0.5')
    """
    is_escaped = text.startswith("'") and escape_formula(text[1:]) == text
    return text[1:] if is_escaped else text

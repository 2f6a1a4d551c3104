"""Escaping of CSV cells, which spreadsheets could run as formulas (OWASP, CSV Injection)."""

import re
from typing import Any

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_SPECIAL = re.compile('[",;\r\n]|^[ \t]|[ \t]$')
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters that begin a formula, or that spreadsheets skip before one."""


def escape_formula(value: Any) -> Any:
    """Return a text that looks like a formula with ``'`` in front of it, any other value unchanged.

    >>> [escape_formula(value) for value in ("=1+1", "-0.5", -0.5)]
    ["'=1+1", '-0.5', -0.5]
    """
    is_formula = (
        isinstance(value, str)
        and value.lstrip(" ").startswith(_FORMULA)
        and not _NUMBER.fullmatch(value.strip(" "))
    )
    return f"'{value}" if is_formula else value


def csv_cell(text: str) -> str:
    """Return a text as a cell of CSV.

    It is quoted if it is a number, has white space at an end, or has a comma, semicolon, quotation
    mark or line break.

    >>> csv_cell("a"), csv_cell("01234"), csv_cell('a;b')
    ('a', '"01234"', '"a;b"')
    """
    if not _SPECIAL.search(text) and not _NUMBER.fullmatch(text.strip(" ")):
        return text
    return '"{}"'.format(text.replace('"', '""'))


def unescape_formula(text: str) -> str:
    """Return the original text of a cell that ``escape_formula`` made; any other text unchanged.

    >>> unescape_formula("'=1+1"), unescape_formula("'tis"), unescape_formula("-0.5")
    ('=1+1', "'tis", '-0.5')
    """
    is_escaped = text.startswith("'") and escape_formula(text[1:]) == text
    return text[1:] if is_escaped else text

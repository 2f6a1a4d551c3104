"""Cells of a CSV file that people open in a spreadsheet: text stays text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or skips before one (OWASP, CSV
Injection)."""


def plain_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose texts no spreadsheet computes: those that look like a formula begin with ``'``.

    >>> plain_cells({"reason": "=1+1", "shift": "-0.5", "mean": -0.5})
    {'reason': "'=1+1", 'shift': '-0.5', 'mean': -0.5}
    """
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    is_formula = (
        isinstance(value, str)
        and value.lstrip(" ").startswith(_FORMULA)
        and not _NUMBER.fullmatch(value.strip(" "))
    )
    return f"'{value}" if is_formula else value

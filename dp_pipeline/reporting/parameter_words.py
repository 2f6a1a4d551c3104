"""Parameters of a release in words: its facts hold them as the text of a Python dict."""

from __future__ import annotations

import ast
from typing import Any

_ABSENT = {"()": "all", "None": "not set"}
"""What a parameter is that names no attribute, or has no value."""


def parameter_words(fact: str) -> str:
    """The parameters in one line; text that holds none as it is.

    >>> parameter_words("{'columns': '()', 'k': '8'}"), parameter_words("{}")
    ('columns: all; k: 8', 'none')
    """
    parameters = _literal(fact)
    if not isinstance(parameters, dict):
        return fact
    return "; ".join(f"{name}: {_words(str(text))}" for name, text in parameters.items()) or "none"


def _words(text: str) -> str:
    """A value: of a tuple its members."""
    members = _literal(text) if text.startswith("(") else None
    if isinstance(members, tuple) and members:
        return ", ".join(map(str, members))
    return _ABSENT.get(text, text)


def _literal(text: str) -> Any:
    """The value that a text writes, else None."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None

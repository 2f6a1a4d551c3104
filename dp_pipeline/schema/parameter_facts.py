"""Parameters as a fact of a release: one JSON object, in ledger, bundle and exports alike."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping

Parameter = str | list[str] | None


def fact_text(texts: Mapping[str, str]) -> str:
    """Canonical texts of parameters, as `texts_of` gives them, as the text of a JSON object.

    >>> fact_text({"k": "8", "columns": "('x', 'y')", "rows": "None"})
    '{"columns": ["x", "y"], "k": "8", "rows": null}'
    """
    values = {name: _value(text) for name, text in texts.items()}
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def fact_values(fact: str) -> dict[str, Parameter] | None:
    """What `fact_text` was made of; None for a text that is no such object."""
    try:
        values = json.loads(fact)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _value(text: str) -> Parameter:
    """A canonical text is that of a number or a word, of a tuple of names, or of nothing."""
    if text == "None":
        return None
    if not text.startswith("("):
        return text
    try:
        members = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return [str(one) for one in members] if isinstance(members, tuple) else text

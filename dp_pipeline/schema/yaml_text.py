"""Writing YAML that the parser reads back as the same texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml

_PLAIN = re.compile(r"[A-Za-z0-9./$]([A-Za-z0-9 ._/$+-]*[A-Za-z0-9._/$+-])?")
_WIDTH = 100

Value = str | Sequence[str]


def scalar(text: str) -> str:
    """One text, in quotation marks where it would be read as something else.

    >>> scalar("Ann Arbor"), scalar("a: b"), scalar(" x"), scalar("")
    ('Ann Arbor', '"a: b"', '" x"', '""')
    """
    if _PLAIN.fullmatch(text):
        return text
    quoted: str = yaml.safe_dump(
        text, default_style='"', allow_unicode=True, width=10**9, explicit_end=False
    )
    return quoted.rstrip("\n")


def flow(value: Value) -> str:
    """A text, or a list of texts, on one line.

    >>> flow(["0", "0.5", "a, b"])
    '[0, 0.5, "a, b"]'
    """
    if isinstance(value, str):
        return scalar(value)
    return f"[{', '.join(map(scalar, value))}]"


def flow_mapping(fields: Mapping[str, Value]) -> str:
    """Fields on one line.

    >>> flow_mapping({"bounds": ["0", "8"], "bins": "4"})
    '{bounds: [0, 8], bins: 4}'
    """
    return "{" + ", ".join(f"{name}: {flow(value)}" for name, value in fields.items()) + "}"


def field(name: str, fields: Mapping[str, Value], *, indent: int = 0) -> list[str]:
    """The lines of one field that is a mapping: one line where it fits, else one a field of it."""
    margin = " " * indent
    line = f"{margin}{name}: {flow_mapping(fields)}"
    if len(line) <= _WIDTH:
        return [line]
    inside = [line for one, value in fields.items() for line in _wrapped(one, value, indent + 2)]
    return [f"{margin}{name}:", *inside]


def _wrapped(name: str, value: Value, indent: int) -> list[str]:
    """One field on one line, or a list on as many as it takes, broken between its items."""
    margin = " " * indent
    line = f"{margin}{name}: {flow(value)}"
    if isinstance(value, str) or len(line) <= _WIDTH:
        return [line]
    lines = [f"{margin}  ["]
    for place, item in enumerate(map(scalar, value)):
        text = item + (", " if place < len(value) - 1 else "]")
        if len(lines[-1]) + len(text) > _WIDTH:
            lines.append(f"{margin}   ")
        lines[-1] += text
    return [f"{margin}{name}:", *(one.rstrip() for one in lines)]

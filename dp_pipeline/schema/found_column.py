"""A column of a source that nobody has declared yet: its name and its declared type."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dp_pipeline.schema.yaml_text import Value

FoundKind = Literal["number", "text", "boolean", "unknown", "unusable"]

_LONGEST = 64


@dataclass(frozen=True)
class FoundColumn:
    """One column as its source declares it.

    name      how the source calls it
    kind      what the declared type is to us: ``unknown`` where there is none, as in CSV, and
              ``unusable`` where it is neither text nor number
    type      the source's own word for the type; empty where there is none
    whole     whether the type holds whole numbers alone
    proposal  fields of an attribute, found by looking at public rows; empty where nobody looked
              or nothing fits
    remark    why a column of public rows was left out
    """

    name: str
    kind: FoundKind
    type: str = ""
    whole: bool = False
    proposal: Mapping[str, Value] = field(default_factory=dict)
    remark: str = ""


def attribute_names(columns: Sequence[FoundColumn]) -> dict[str, FoundColumn]:
    """Attribute name → column, in order: a-z, 0-9 and _, each once.

    >>> list(attribute_names([FoundColumn("Trip (km)", "number"), FoundColumn("2nd", "text")]))
    ['trip_km', 'c_2nd']
    """
    named: dict[str, FoundColumn] = {}
    for column in columns:
        base, place = _plain(column.name), 1
        name = base
        while name in named:
            place += 1
            name = f"{base[: _LONGEST - 6]}_{place}"
        named[name] = column
    return named


def _plain(text: str) -> str:
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", ascii_text.lower()).strip("_")
    if not name or not name[0].isalpha():
        name = f"c_{name}".rstrip("_")
    return name[:_LONGEST]

"""Write docs/reference/dataset_file.md from the JSON Schema of data set files.

``python docs/site/dataset_file.py`` prints the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dp_pipeline.cli.json_schema import dataset_schema

HEAD = """\
# Keys of a data set file

For everyone who writes one. Afterwards you know each key, its values and its default.
[Your own data](../your_own_data.md) shows when to use which; parameters of models are
in [their reference](models.rst). Keys in bold are required. `dp-pipeline data schema` prints them
for editors. Scalars are read as text: `no` is a level.
"""

ATTRIBUTES = ("Category", "Numeric", "Moment")
"""Sections that are one table, as they share most of their keys."""

DOWNLOADS = ("CsvDownload", "CsvDownloads", "OneUrl")
"""Sections with the keys of a source at a URL."""

Schema = Mapping[str, Any]


def page(schema: Schema) -> str:
    """Return the page as Markdown: the top level, the sources, then every other section."""
    sections = schema["$defs"]
    sources = [item["$ref"].rpartition("/")[2] for item in schema["properties"]["source"]["oneOf"]]
    parts = [HEAD, *_table(schema)]
    for title, names in (("Source", sources), ("Attributes", ATTRIBUTES)):
        parts += [f"## {title}\n", *_shared_table(names, sections)]
    shown = {*sources, *ATTRIBUTES, *DOWNLOADS}
    for name, section in sections.items():
        if name not in shown and not name.startswith("expect_"):
            parts += [f"## {_title(name)}\n", *_table(section)]
    checks = ", ".join(f"`{name}`" for name in sections if name.startswith("expect_"))
    parts.append(f"## Expectations\n\nThese of Great Expectations: {checks}.\n")
    return "\n".join(parts)


def _shared_table(names: Iterable[str], sections: Mapping[str, Schema]) -> Iterator[str]:
    """Return one table of sections that share keys: a key stands once, with those that have it."""
    users: dict[tuple[str, ...], dict[str, None]] = {}
    labels = {}
    for name in names:
        section = sections[name]
        kind = section["properties"].get("kind", {}).get("const")
        labels[name] = f"`{kind}`" if kind else _title(name).lower()
        for key, value in section["properties"].items():
            if key != "kind":
                cells = _cells(section, key, value)
                users.setdefault(cells, {})[labels[name]] = None
    every = set(labels.values())
    yield "| key | what it says | of |\n|---|---|---|"
    for cells, those in users.items():
        yield _row(*cells, "all" if set(those) == every else ", ".join(those))
    yield ""


def _table(section: Schema) -> Iterator[str]:
    yield "| key | what it says |\n|---|---|"
    for key, value in section.get("properties", {}).items():
        if key != "kind":
            yield _row(*_cells(section, key, value))
    yield ""


def _cells(section: Schema, key: str, value: Schema) -> tuple[str, str]:
    """Return the key, and its description with the values or the section that it may hold."""
    values, default = _values(value), _text(value.get("default", ""))
    parts = [values] if set("`[") & set(values) and values != "`true`, `false`" else []
    is_required = key in section.get("required", ())
    parts += [f"default {default}"] if default and not is_required else []
    words = value.get("description", "")
    allowed = f"({'; '.join(parts)})" if parts else ""
    return f"**`{key}`**" if is_required else f"`{key}`", " ".join(filter(None, (words, allowed)))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "&#124;") for cell in cells) + " |"


def _values(value: Schema) -> str:
    """Return what a key may hold, in a few words."""
    choices = value.get("oneOf") or value.get("anyOf")
    if {"$ref": "#/$defs/CsvFile"} in (choices or ()):
        text = "[source](#source)"
    elif "$ref" in value:
        text = _link(value["$ref"])
    elif "const" in value or "enum" in value:
        allowed = value.get("enum", [value.get("const")])
        text = ", ".join(dict.fromkeys(_text(item) for item in allowed if item != "1"))
    elif choices:
        text = " or ".join(dict.fromkeys(_values(item) for item in choices))
    elif value.get("type") == "array":
        text = f"list of: {_values(value.get('items', {}))}"
    elif value.get("type") == "object":
        entries = list(value.get("patternProperties", {}).values())
        entries += [value["additionalProperties"]] if value.get("additionalProperties") else []
        text = f"NAME: {' or '.join(map(_values, entries))}" if entries else "a map"
    elif value.get("type") in ("number", "integer") or "\\d" in value.get("pattern", ""):
        text = "number"
    else:
        text = "text"
    return text


def _text(value: Any) -> str:
    return f"`{json.dumps(value) if isinstance(value, bool) else value}`" if value != "" else ""


def _title(name: str) -> str:
    words = name.removesuffix("Section").replace("Csv", "CSV").replace("CSV", "csv")
    return "".join(f" {c.lower()}" if c.isupper() else c for c in words).strip().capitalize()


def _link(reference: str) -> str:
    name = reference.rpartition("/")[2]
    if name.startswith("expect_"):
        return "[expectation](#expectations)"
    if name in DOWNLOADS:
        return "[as at a URL](#source)"
    title = "attributes" if name in ATTRIBUTES else _title(name).lower()
    return f"[{_title(name).lower()}](#{title.replace(' ', '-')})"


if __name__ == "__main__":
    sys.stdout.write(page(dataset_schema()))

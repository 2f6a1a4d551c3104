"""A small data set file, field by field, and files that differ from it in one."""

import re
from pathlib import Path

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec

FIELDS = {
    "name": "name: toy",
    "description": "description: Ten people on a square.",
    "population": "population: people",
    "purpose": "purpose: release",
    "protection": "protection:\n  unit: rows_of_person\n  column: person\n  at_most: 3",
    "ceiling": "ceiling:\n  total: 4",
    "source": "source:\n  kind: csv\n  path: toy.csv",
    "attributes": (
        "attributes:\n"
        "  x: {bounds: [0, 8]}\n"
        "  age: {bounds: [0, 100], bins: 4, nullable: false}\n"
        "  colour: {levels: [red, green, blue], other: blue, nullable: false}"
    ),
    "partitions": "partitions: [0.5, 1]",
    "models": "models:\n  dpqt_kmeans: {k: 2}\n  independent:",
}
"""Field → its lines."""


def assert_no_name_twice(line: str) -> None:
    """What a message is about is said once: the file has the name of the data set."""
    assert not re.search(r"\b(\w+)(\.yaml:\d+)?: (.*: )?\1: ", line)


def declaration(**changes: str | None) -> str:
    """The file's text with some fields' lines replaced, added, or (None) left out."""
    blocks = {**FIELDS, **changes}
    return "".join(f"{block}\n" for block in blocks.values() if block is not None)


def written(folder: Path, text: str | bytes, name: str = "toy") -> Path:
    path = folder / f"{name}.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def loaded(folder: Path, **changes: str | None) -> DatasetSpec:
    return load_spec(written(folder, declaration(**changes)))


def with_attribute(lines: str) -> str:
    """The attributes block with one more attribute, called ``odd``."""
    return f"{FIELDS['attributes']}\n  odd: {lines}"

"""The levels of a category in a data set file: a list, a range, or the lines of another file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import WithJsonSchema

from dp_pipeline.config import fields
from dp_pipeline.config.encoding import MAX_CELLS, normal_text
from dp_pipeline.config.errors import FieldError
from dp_pipeline.config.fields import below, require
from dp_pipeline.config.system_errors import bounded_bytes, os_error_reason, remedy_of
from dp_pipeline.config.yaml_text import TODO

DISCOVER = "discover"
EXPECTED = f"2 to {MAX_CELLS} different levels"
MAX_FILE_BYTES = 1 << 23


def level_texts(value: object) -> object:
    """Return the levels of a list, or of a range such as 0..15, as texts; [] for ``discover``.

    Any value that is no text or list stays as it is. FieldError for an empty list or wrong range.
    """
    if value == DISCOVER:
        return []
    require(value != [], EXPECTED, "an empty list")
    if isinstance(value, list):
        # Cells are read without white space around them, so no other text could be met.
        return [normal_text(text) if isinstance(text, str) else text for text in value]
    if not isinstance(value, str) or value == TODO:
        return value
    ends = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", value)
    numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else range(0)
    expected = "first..last, the last not below the first" if ends else "a list, or first..last"
    require(numbers, expected, repr(value[:60]))
    require(len(numbers) <= MAX_CELLS, EXPECTED, repr(value[:60]))
    return list(map(str, numbers))


_RANGE = {"type": "string", "pattern": r"^\d+\.\.\d+$"}
_FILE: dict[str, Any] = {"type": "object", "properties": {"file": fields.TEXT}}
_FILE |= {"required": ["file"], "additionalProperties": False}
DISCOVERED = {"const": DISCOVER}
_LIST = {"type": "array", "items": fields.TEXT, "minItems": 2}
LEVELS = WithJsonSchema({"anyOf": [_LIST, _RANGE, _FILE, DISCOVERED]})


def with_levels_of_files(texts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a data set file's texts, with each ``levels: {file: …}`` replaced by its lines, also
    below ``parts``.

    folder   folder of the data set file

    FieldError for a file of levels that cannot be read.
    """
    texts = dict(texts)
    for name, section in _mappings(texts.get("attributes")).items():
        if isinstance(section.get("levels"), dict):
            with below("attributes", name, "levels"):
                levels = _lines(section["levels"], folder)
            texts["attributes"] = {**texts["attributes"], name: {**section, "levels": levels}}
    for name, section in _mappings(texts.get("parts")).items():
        with below("parts", name):
            texts["parts"] = {**texts["parts"], name: with_levels_of_files(section, folder)}
    return texts


def _mappings(value: object) -> dict[str, dict[str, Any]]:
    members = value.items() if isinstance(value, dict) else ()
    return {name: member for name, member in members if isinstance(member, dict)}


def _lines(section: Mapping[str, object], folder: Path) -> list[str]:
    name = section.get("file")
    is_file = isinstance(name, str) and name and len(section) == 1
    require(is_file, "a list, first..last, discover, or {file: NAME}", "other fields")
    expected = "a path without the character U+0000"
    require("\0" not in str(name), expected, repr(str(name)[:60]), "file")
    try:
        content = bounded_bytes(folder / str(name), max_bytes=MAX_FILE_BYTES).decode("utf-8-sig")
    except OSError as error:
        expected, got = "a file that can be read", f"none ({os_error_reason(error)})"
        hint = f": {remedy_of(error) or 'put a copy there'}"
        if isinstance(error, FileNotFoundError):
            hint = ": correct its name, which begins in this file's folder, or put it there"
    except UnicodeDecodeError:
        expected, got, hint = "a file of UTF-8 text", "other bytes", ": save it as UTF-8"
    else:
        return [line.strip() for line in content.splitlines() if line.strip()]
    raise FieldError(expected, got, field=("file",), hint=hint)

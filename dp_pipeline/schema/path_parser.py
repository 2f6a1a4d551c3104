"""Paths in a data set file: beside it, or in the data folder."""

from __future__ import annotations

import os
from pathlib import Path

from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.source import DATA_FOLDER_VARIABLE


def parse_path(section: Fields, field: str, text: str, folder: Path) -> tuple[str, str | None]:
    """The path that ``text``, of one field, means, and the variable that it needs.

    folder   the data set file's, where its paths begin
    """
    head, _, rest = text.partition("/")
    if head != f"${DATA_FOLDER_VARIABLE}":
        if "$" in text:
            section.refuse(field, f"no variable but ${DATA_FOLDER_VARIABLE}", repr(text[:60]))
        return str((folder / text).resolve()), None
    data = os.environ.get(DATA_FOLDER_VARIABLE)
    return (str(Path(data, rest).resolve()) if data else text), DATA_FOLDER_VARIABLE

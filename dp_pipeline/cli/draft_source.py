"""The source that a draft is made from: what was asked as fields of a data set file."""

from __future__ import annotations

import os
from pathlib import Path

from dp_pipeline.raw.proposals import likely_delimiter
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.fields import Value, flow_mapping, written_fields
from dp_pipeline.spec.source import DATA_FOLDER_VARIABLE, Source
from dp_pipeline.spec.source_parser import parse_source

_SQLITE = "sqlite:///"


def source_fields(
    origin: str, folder: Path, *, query: str, header: str, delimiter: str
) -> dict[str, Value]:
    """The section ``source`` of a data set file in ``folder``.

    origin   a path, ``sqlite:///path`` or ``$NAME`` of a variable with a database's URL

    Raises DeclarationError for options that do not go with the origin, SourceError for a CSV file
    that has no first line.
    """
    is_database = origin.startswith((_SQLITE, "$")) and not origin.startswith(
        f"${DATA_FOLDER_VARIABLE}/"
    )
    if "://" in origin and not origin.startswith(_SQLITE):
        # Not quoted: there may be a password in it.
        raise DeclarationError(
            f"data init: expected a path, {_SQLITE}PATH or '$NAME' of a variable, got a URL"
        )
    if is_database != bool(query):
        expected = "--query with a database" if is_database else "--query with a database alone"
        raise DeclarationError(
            f"data init: expected {expected}, got {'none' if is_database else 'one'}"
        )
    if is_database:
        return {"kind": "sql", "database": _database(origin, folder), "query": query}
    path = Path(os.path.expandvars(origin))
    kind = "parquet" if path.is_dir() or path.suffix == ".parquet" else "csv"
    fields: dict[str, Value] = {"kind": kind, "path": _path(path, folder)}
    if kind == "csv":
        fields |= _form(path, header=header, delimiter=delimiter)
    elif header or delimiter:
        raise DeclarationError("data init: expected --header and --delimiter of CSV alone, got one")
    return fields


def _form(path: Path, *, header: str, delimiter: str) -> dict[str, Value]:
    """Of a CSV file: what it does not say itself."""
    chosen = delimiter or ("," if header else likely_delimiter(path))
    names = [name.strip() for name in header.split(",")] if header else []
    return {
        **({} if chosen == "," else {"delimiter": chosen}),
        **({"header": names} if names else {}),
    }


def _database(origin: str, folder: Path) -> str:
    if not origin.startswith(_SQLITE):
        return origin
    return _SQLITE + _path(Path(origin.removeprefix(_SQLITE)), folder)


def _path(path: Path, folder: Path) -> str:
    """A path as the file will say it: below it or in the data folder where it can be, so that both
    may be moved.
    """
    there, data = path.resolve(), os.environ.get(DATA_FOLDER_VARIABLE)
    if there.is_relative_to(folder):
        return str(there.relative_to(folder))
    if data and there.is_relative_to(Path(data).resolve()):
        return f"${DATA_FOLDER_VARIABLE}/{there.relative_to(Path(data).resolve())}"
    return str(there)


def drafted_source(fields: dict[str, Value], path: Path) -> Source:
    """The source that the data set file ``path`` will declare, by the parser that will read it."""
    section = written_fields(f"source: {flow_mapping(fields)}", path).section("source")
    return parse_source(section, path.parent, Domain(()), is_release=False)

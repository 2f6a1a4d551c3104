"""The database and the query of a data set file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.path_parser import parse_path
from dp_pipeline.schema.source import Source

_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_SQLITE = "sqlite:///"


def parse_database(section: Fields, folder: Path) -> Source:
    """A query to a database, which a variable of the environment names or a path of SQLite.

    folder   the data set file's, where its paths begin

    A password never stands in a data set file: a URL of PostgreSQL in it is refused. The
    variable's text is in no message, and of it only the database's name is kept.
    """
    # Takes a third of a second, and most data sets are files.
    from dp_pipeline.schema.database import is_one_query

    text = section.text("database")
    variable = _VARIABLE.fullmatch(text)
    if variable is None:
        location, needs = _beside(section, text, folder)
    else:
        location, needs = _named(section, variable[1]), variable[1]
    query = section.text("query")
    if not is_one_query(query):
        expected = "one SELECT without a semicolon, or WITH … SELECT"
        section.refuse("query", expected, "another statement, or more than one")
    return Source("sql", location, needs=needs, query=query)


def _named(section: Fields, variable: str) -> str:
    """The database that a variable names; the variable itself where it is not set."""
    from dp_pipeline.schema.database import EXPECTED_DATABASE, database_name, database_url

    text = os.environ.get(variable)
    if not text:
        return f"${variable}"
    url = database_url(text)
    if url is None:
        section.refuse("database", f"{EXPECTED_DATABASE} in {variable}", "another text")
    return database_name(url)


def _beside(section: Fields, text: str, folder: Path) -> tuple[str, str | None]:
    """A file of SQLite, and the variable that its path needs."""
    path = text.removeprefix(_SQLITE)
    if path in ("", text, ":memory:") or "?" in path or path.startswith("file:"):
        expected = f"{_SQLITE}path, or $NAME of a variable with the URL of a database"
        section.refuse("database", expected, "another text")
    location, needs = parse_path(section, "database", path, folder)
    return f"{_SQLITE}{location}", needs

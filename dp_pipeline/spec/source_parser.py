"""The source of a data set file: paths, URLs, a database, or a name.

Downloads of a data set file: where from, of what size, known by which hash.

The database and the query of a data set file.

Paths in a data set file: beside it, or in the data folder.

Cells of a CSV file that people open in a spreadsheet: text stays text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import Levels
from dp_pipeline.spec.fields import Fields
from dp_pipeline.spec.name import did_you_mean
from dp_pipeline.spec.source import DATA_FOLDER_VARIABLE, WHITESPACE, Sample, Source
from dp_pipeline.spec.url import EXPECTED_URL, is_allowed_url, shown_url, url_names

_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse_urls(section: Fields, form: Source, *, is_release: bool) -> Source:
    """The source of a section with ``url`` and ``sha256``, or with lists of both.

    form         what its files are like
    is_release   whether rows are sensitive: then the hash is required, because whoever answers
                 for a URL must not choose whose rows are released
    """
    several = form.kind == "csv" and "urls" in section
    field = "urls" if several else "url"
    urls = section.texts("urls") if several else (section.text("url"),)
    for url in urls:
        if not is_allowed_url(url):
            section.refuse(field, EXPECTED_URL, "another text")
    if not urls:
        section.refuse(field, "one or more URLs", "none")
    _require_different(section, field, urls)
    hashes = _hashes(section, len(urls), several=several, is_release=is_release)
    return replace(
        form,
        location=urls[0],
        more=urls[1:],
        needs=None,
        sha256=dict(zip(urls, hashes, strict=True)) if hashes else {},
        at_most_mb=section.integer("at_most_mb", at_least=1),
    )


def _require_different(section: Fields, field: str, urls: tuple[str, ...]) -> None:
    """No file twice: its rows would count twice."""
    known: set[str] = set()
    for url in urls:
        names = url_names(url)
        if not known.isdisjoint(names):
            section.refuse(
                field,
                "URLs that differ in more than a query, capital letters or slashes",
                f"{shown_url(url)} for a second time",
            )
        known.update(names)


def _hashes(section: Fields, count: int, *, several: bool, is_release: bool) -> tuple[str, ...]:
    """One a URL, or none at all."""
    if "sha256" not in section:
        if is_release:
            section.refuse("sha256", "the hash of sensitive data that is downloaded", "nothing")
        return ()
    hashes = section.texts("sha256") if several else (section.text("sha256"),)
    if len(hashes) != count or not all(map(_SHA256.fullmatch, hashes)):
        section.refuse("sha256", f"64 hexadecimal digits (0-9, a-f), {count} times", "another text")
    return hashes


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


_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
_SQLITE = "sqlite:///"


def parse_database(section: Fields, folder: Path) -> Source:
    """A query to a database, which a variable of the environment names or a path of SQLite.

    folder   the data set file's, where its paths begin

    A password never stands in a data set file: a URL of PostgreSQL in it is refused. The
    variable's text is in no message, and of it only the database's name is kept.
    """
    # Takes a third of a second, and most data sets are files.
    from dp_pipeline.spec.source import is_one_query

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
    from dp_pipeline.spec.source import EXPECTED_DATABASE, database_name, database_url

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


def parse_source(section: Fields, folder: Path, domain: Domain, *, is_release: bool) -> Source:
    """Read the source. Nothing of it is opened, no file and no network.

    folder       the data set file's, where its paths begin
    domain       the declared attributes, by one of which rows may be sampled
    is_release   whether rows are sensitive: then none is sampled, and a download is known by its
                 hash
    """
    kind = section.text("kind", choices=("csv", "parquet", "sql", "sklearn", "generator"))
    if kind in ("sklearn", "generator"):
        source = Source(kind, section.text("name"), options=_options(section))  # type: ignore[arg-type]
    elif kind == "sql":
        source = parse_database(section, folder)
    elif "url" in section or "urls" in section:
        form = _with_form(Source(kind, ""), section)  # type: ignore[arg-type]
        source = parse_urls(section, form, is_release=is_release)
    else:
        source = _files(section, kind, folder, is_release=is_release)
    if "sample" in section:
        source = replace(source, sample=_sample(section, domain, kind, is_release))
    section.finish()
    return source


def _files(section: Fields, kind: str, folder: Path, *, is_release: bool) -> Source:
    """Paths, and what is downloaded where one of them is absent."""
    locations, needs = _paths(section, kind, folder)
    source = Source(kind, locations[0], more=locations[1:], needs=needs)  # type: ignore[arg-type]
    source = _with_form(source, section)
    if "download" not in section:
        return source
    nested = section.section("download")
    form = _with_form(source, nested)
    download = parse_urls(nested, form, is_release=is_release)
    nested.finish()
    # Nothing has to be set where a download stands in.
    return replace(source, needs=None, download=download)


def _options(section: Fields) -> dict[str, int]:
    if "options" not in section:
        return {}
    nested = section.section("options")
    return {name: nested.integer(name, at_least=0) for name in nested}


def _paths(section: Fields, kind: str, folder: Path) -> tuple[tuple[str, ...], str | None]:
    """Every path, and the variable that they need."""
    if kind != "csv" or "paths" not in section:
        location, needs = parse_path(section, "path", section.text("path"), folder)
        return (location,), needs
    found = [parse_path(section, "paths", text, folder) for text in section.texts("paths")]
    locations = tuple(location for location, _ in found)
    if not locations or len(set(locations)) < len(locations):
        section.refuse("paths", "one or more different files", str(len(locations)))
    return locations, next((needs for _, needs in found if needs), None)


def _sample(source: Fields, domain: Domain, kind: str, is_release: bool) -> Sample:
    if is_release:
        # A row's place in a sample depends on the other rows, so no protection would hold.
        source.refuse("sample", "every row of sensitive data", "a sample of them")
    if kind == "sql":
        # Which rows are in a sample depends on their places, and the rows of a query have none.
        source.refuse("sample", "every row of a query", "a sample of them")
    section = source.section("sample")
    sample = Sample(
        rows=section.integer("rows", at_least=1),
        by=section.text("by"),
        seed=section.integer("seed", at_least=0),
    )
    section.finish()
    nominal = [one.name for one in domain if isinstance(one.cells, Levels)]
    if sample.by not in nominal:
        expected = f"an attribute with levels: {', '.join(nominal) or 'there is none'}"
        section.refuse("by", expected, repr(sample.by[:60]), hint=did_you_mean(sample.by, nominal))
    return sample


def _with_form(source: Source, section: Fields) -> Source:
    """The source with the form of CSV files that a section declares; what it does not, stays."""
    if source.kind != "csv":
        return source
    if "header" in section:
        source = replace(source, header=section.texts("header"))
    if "delimiter" in section:
        source = replace(source, delimiter=_delimiter(section))
    if "comment" in section:
        source = replace(source, comment=_comment(section, source.delimiter))
    return source


def _comment(section: Fields, delimiter: str) -> str:
    """The character that begins a line which is no row."""
    text = section.text("comment")
    if len(text) != 1 or not text.isascii() or not text.isprintable() or text in {'"', delimiter}:
        section.refuse("comment", "one character, neither delimiter nor quote", repr(text[:60]))
    return text


def _delimiter(section: Fields) -> str:
    text = section.text("delimiter")
    if text == WHITESPACE:
        return text
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        section.refuse("delimiter", f"one character or {WHITESPACE}", repr(text[:60]))
    return text


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or skips before one (OWASP, CSV
Injection)."""


def plain_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose texts no spreadsheet computes: those that look like a formula begin with ``'``.

    >>> plain_cells({"reason": "=1+1", "shift": "-0.5", "mean": -0.5})
    {'reason': "'=1+1", 'shift': '-0.5', 'mean': -0.5}
    """
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    is_formula = (
        isinstance(value, str)
        and value.lstrip(" ").startswith(_FORMULA)
        and not _NUMBER.fullmatch(value.strip(" "))
    )
    return f"'{value}" if is_formula else value

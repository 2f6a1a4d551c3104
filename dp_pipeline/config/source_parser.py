"""Section ``source`` of a data set file: paths, URLs, a database, or a name.

What it declares is never opened, no file and no network. A password has no place in it: a URL of
PostgreSQL is refused, and of the variable that holds one only the database's name is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dp_pipeline.config import fields
from dp_pipeline.config.database import (
    EXPECTED_DATABASE,
    SQLITE,
    database_name,
    database_url,
    is_one_query,
)
from dp_pipeline.config.errors import Refused, follow_links
from dp_pipeline.config.fields import OneForm, a_mapping, below, not_among, placed, require
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE, WHITESPACE, Source
from dp_pipeline.config.url import EXPECTED_URL, is_allowed_url, shown_url, url_names
from dp_pipeline.config.yaml_text import Document, Value, flow_mapping


def _judged(
    is_good: Callable[[str], object], expected: str, *, got: str = "another text", **schema: object
) -> fields.Scalar:
    """A text that is good or not, and that no message repeats."""
    told = schema or fields.TEXT
    return fields.Scalar(lambda text: text if is_good(text) else None, expected, told, got=got)


_HASH = "64 hexadecimal digits (0-9, a-f)"
_IS_HASH = re.compile("[0-9a-f]{64}").fullmatch

Url = Annotated[str, _judged(is_allowed_url, EXPECTED_URL, type="string", pattern="^https?://")]
Hash = Annotated[str, _judged(_IS_HASH, _HASH, type=["string", "number"], pattern="^[0-9a-f]{64}$")]
Query = Annotated[
    str,
    _judged(
        is_one_query,
        "one SELECT without a semicolon, or WITH … SELECT",
        got="another statement, or more than one",
    ),
]

_DELIMITER = fields.Scalar(
    lambda text: text if re.fullmatch(rf'[^"\r\n\x80-\U0010ffff]|{WHITESPACE}', text) else None,
    f"one character or {WHITESPACE}",
    fields.TEXT,
)
_EXPECTED_COMMENT = "one character, neither delimiter nor quote"
_COMMENT = fields.Scalar(
    lambda text: text if re.fullmatch("[ !#-~]", text) else None, _EXPECTED_COMMENT, fields.TEXT
)


class SampleSection(fields.Section):
    """So many rows, each class in proportion, drawn by chance from a seed.

    by  The attribute whose levels are the classes.
    """

    rows: fields.Count
    by: fields.Text
    seed: fields.Index


class Sampled(fields.Section):
    """A source of which a benchmark may read a part.

    sample  Some of the rows, each class in proportion: of benchmarks only.
    """

    sample: SampleSection | None = None


class CsvForm(fields.Section):
    """What CSV files are like.

    delimiter  One character, or whitespace.
    header     Names of columns, where the first line has none.
    comment    The character that begins a line which is no row.
    """

    delimiter: Annotated[str, _DELIMITER] | None = None
    header: fields.Listed[fields.Item] | None = None
    comment: Annotated[str, _COMMENT] | None = None


class OneUrl(fields.Section):
    """A file that is downloaded.

    url         Where it is downloaded from.
    sha256      Its SHA-256; required of sensitive rows.
    at_most_mb  The most that one URL may give, in megabytes.
    """

    url: Url
    sha256: Hash | None = None
    at_most_mb: fields.Count


class SeveralUrls(fields.Section):
    """Files of one form that are downloaded.

    urls        Several files of one form.
    sha256      The SHA-256 of each; required of sensitive rows.
    at_most_mb  The most that one URL may give, in megabytes.
    """

    urls: fields.Several[Url]
    sha256: fields.Listed[Hash] | None = None
    at_most_mb: fields.Count


class CsvDownload(CsvForm, OneUrl):
    """A CSV file that is read where the declared one is absent."""


class CsvDownloads(CsvForm, SeveralUrls):
    """CSV files that are read where a declared one is absent."""


def _csv_download(value: object) -> CsvDownload | CsvDownloads:
    is_one = "urls" not in a_mapping(value)
    return (CsvDownload if is_one else CsvDownloads).model_validate(value)


_Download = CsvDownload | CsvDownloads


class _Csv(CsvForm, Sampled):
    kind: Literal["csv"]


class _Parquet(Sampled):
    kind: Literal["parquet"]


class CsvFile(_Csv):
    """A CSV file.

    path      Beside this file, or $DP_PIPELINE_DATA/…
    download  What is downloaded where the file is absent.
    """

    path: fields.Text
    download: Annotated[_Download, OneForm(_Download, _csv_download)] | None = None


class CsvFiles(_Csv):
    """Several CSV files of one form.

    paths     Each beside this file, or $DP_PIPELINE_DATA/…
    download  What is downloaded where a file is absent.
    """

    paths: fields.Several[fields.Item]
    download: Annotated[_Download, OneForm(_Download, _csv_download)] | None = None


class CsvAtUrl(_Csv, OneUrl):
    """A CSV file behind a URL."""


class CsvAtUrls(_Csv, SeveralUrls):
    """CSV files behind URLs."""


class ParquetFile(_Parquet):
    """A Parquet file, or a folder of them.

    path      Beside this file, or $DP_PIPELINE_DATA/…
    download  What is downloaded where the file is absent.
    snapshot  copy, or in_place: the files are read where they are, and must not change.
    """

    path: fields.Text
    download: OneUrl | None = None
    snapshot: Literal["copy", "in_place"] = "copy"

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        """Files that stay where they are are there, and all of their rows are read."""
        if self.snapshot == "in_place" and (self.download or self.sample):
            expected = "copy, where rows are downloaded or sampled"
            raise Refused(expected, "in_place", field=("snapshot",))
        return self


class ParquetAtUrl(_Parquet, OneUrl):
    """A Parquet file behind a URL."""


class Database(fields.Section):
    """A query to a database.

    database  $NAME of a variable with a URL, or sqlite:///path.
    query     One SELECT.
    """

    kind: Literal["sql"]
    database: fields.Text
    query: Query

    @model_validator(mode="before")
    @classmethod
    def _every_row(cls, value: object) -> object:
        """A sample is drawn by the places of rows, and the rows of a query have none."""
        is_whole = "sample" not in a_mapping(value)
        require(is_whole, "every row of a query", "a sample of them", "sample")
        return value


class _Made(Sampled):
    """Rows that a name means.

    options  Whole numbers: rows and seed.
    """

    options: fields.Named[fields.Index] = Field(default_factory=dict)


class Bundled(_Made):
    """A set that scikit-learn brings along."""

    kind: Literal["sklearn"]
    name: fields.Text


class Generated(_Made):
    """Rows that a generator makes."""

    kind: Literal["generator"]
    name: fields.Text


_Files = CsvFile | CsvFiles | ParquetFile
_AtUrls = CsvAtUrl | CsvAtUrls | ParquetAtUrl
_Any = _Files | _AtUrls | Database | Bundled | Generated
_FORMS: dict[str, dict[str, type[_Any]]] = {
    "csv": {"url": CsvAtUrl, "urls": CsvAtUrls, "paths": CsvFiles, "": CsvFile},
    "parquet": {"url": ParquetAtUrl, "urls": ParquetAtUrl, "": ParquetFile},
    "sql": {"": Database},
    "sklearn": {"": Bundled},
    "generator": {"": Generated},
}
"""Kind → a field that tells its form → the form; the last one is that of none of these."""


def _form(value: object) -> _Any:
    section = a_mapping(value)
    kind = section.get("kind")
    if not isinstance(kind, str) or kind not in _FORMS:
        raise not_among(kind, _FORMS, field=("kind",))
    forms = _FORMS[kind]
    return next(form for field, form in forms.items() if field in (*section, "")).model_validate(
        section
    )


AnySource = Annotated[_Any, OneForm(_Any, _form)]


def source_of(section: _Any, folder: Path, *, is_release: bool) -> Source:
    """The source that is declared, without its sample; Refused where it cannot be.

    folder       the data set file's, where its paths begin
    is_release   whether rows are sensitive: then a download is known by its hash
    """
    match section:
        case Database():
            return _database(section, folder)
        case Bundled() | Generated():
            return Source(section.kind, section.name, options=section.options)
        case CsvAtUrl() | CsvAtUrls() | ParquetAtUrl():
            return _downloaded(section, Source(section.kind, ""), is_release=is_release)
        case CsvFiles():
            named = [_path(text, folder, "paths") for text in section.paths]
        case _:
            named = [_path(section.path, folder, "path")]
    locations = tuple(location for location, _ in named)
    if len(set(locations)) < len(locations):
        raise Refused("one or more different files", str(len(locations)), field=("paths",))
    needs = next((needs for _, needs in named if needs), None)
    source = Source(section.kind, locations[0], more=locations[1:], needs=needs)
    source = _with_form(source, section)
    if isinstance(section, ParquetFile):
        source = replace(source, in_place=section.snapshot == "in_place")
    if section.download is None:
        return source
    with below("download"):
        download = _downloaded(section.download, source, is_release=is_release)
    # Nothing has to be set where a download stands in.
    return replace(source, needs=None, download=download)


def _with_form(source: Source, section: fields.Section) -> Source:
    """The source with the form of CSV files that a section declares; what it does not, stays."""
    if not isinstance(section, CsvForm):
        return source
    form = {name: getattr(section, name) for name in CsvForm.model_fields}
    source = replace(source, **{name: one for name, one in form.items() if one is not None})
    if section.comment is not None and source.comment == source.delimiter:
        raise Refused(_EXPECTED_COMMENT, repr(source.comment), field=("comment",))
    return source


def _downloaded(section: OneUrl | SeveralUrls, form: Source, *, is_release: bool) -> Source:
    """What a URL or several give.

    form         what its files are like
    is_release   whether rows are sensitive: then the hash is required, because whoever answers
                 for a URL must not choose whose rows are released
    """
    urls = (section.url,) if isinstance(section, OneUrl) else section.urls
    hashes = (section.sha256,) if isinstance(section.sha256, str) else section.sha256
    known: set[str] = set()
    for url in urls:
        # No file twice: its rows would count twice.
        names = url_names(url)
        if not known.isdisjoint(names):
            expected = "URLs that differ in more than a query, capital letters or slashes"
            raise Refused(expected, f"{shown_url(url)} for a second time", field=("urls",))
        known.update(names)
    if hashes is None and is_release:
        expected = "the hash of sensitive data that is downloaded"
        raise Refused(expected, "nothing", field=("sha256",))
    if hashes is not None and len(hashes) != len(urls):
        raise Refused(f"{_HASH}, {len(urls)} times", str(len(hashes)), field=("sha256",))
    return replace(
        _with_form(form, section),
        location=urls[0],
        more=urls[1:],
        needs=None,
        sha256=dict(zip(urls, hashes or (), strict=hashes is not None)),
        at_most_mb=section.at_most_mb,
    )


def _path(text: str, folder: Path, field: str) -> tuple[str, str | None]:
    """The path that ``text``, of one field, means, and the variable that it needs.

    folder   the data set file's, where its paths begin
    """
    head, _, rest = text.partition("/")
    if head != f"${DATA_FOLDER_VARIABLE}":
        if "$" in text:
            expected = f"no variable but ${DATA_FOLDER_VARIABLE}"
            raise Refused(expected, repr(text[:60]), field=(field,))
        return str(follow_links(folder / text)), None
    data = os.environ.get(DATA_FOLDER_VARIABLE)
    return (str(follow_links(Path(data, rest))) if data else text), DATA_FOLDER_VARIABLE


def _database(section: Database, folder: Path) -> Source:
    """The database of a variable, or a file of SQLite, and its query.

    A password never stands in a data set file: a URL of PostgreSQL in it is refused. The
    variable's text is in no message, and of it only the database's name is kept.
    """
    variable = re.fullmatch(r"\$([A-Z_][A-Z0-9_]*)", section.database)
    if variable is None:
        path = section.database.removeprefix(SQLITE)
        is_odd = path in ("", section.database, ":memory:") or path.startswith("file:")
        if is_odd or "?" in path:
            expected = f"{SQLITE}path, or $NAME of a variable with the URL of a database"
            raise Refused(expected, "another text", field=("database",))
        location, needs = _path(path, folder, "database")
        return Source("sql", f"{SQLITE}{location}", needs=needs, query=section.query)
    name, text = variable[1], os.environ.get(variable[1])
    location = f"${name}"
    if text:
        url = database_url(text)
        if url is None:
            expected = f"{EXPECTED_DATABASE} in {name}"
            raise Refused(expected, "another text", field=("database",))
        location = database_name(url)
    return Source("sql", location, needs=name, query=section.query)


class _Draft(fields.Section):
    """A file of which nothing but the source is there."""

    source: AnySource


def drafted_source(fields: Mapping[str, Value], path: Path) -> Source:
    """The source that a data set file ``path`` with this section will declare."""
    document = Document.of_text(f"source: {flow_mapping(fields)}", path)
    with placed(document), below("source"):
        section = _Draft.model_validate(document.texts).source
        return source_of(section, path.parent, is_release=False)

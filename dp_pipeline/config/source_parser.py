"""Section ``source`` of a data set file: paths, URLs, a database, or a name.

Nothing is opened here. No file holds a password: URLs of PostgreSQL are refused in it, and of the
variable with a URL only the database's name is stored.
"""

import codecs
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dp_pipeline.config import database, fields
from dp_pipeline.config.fields import below, require
from dp_pipeline.config.source import DATA_FOLDER_VARIABLE, WHITESPACE, Source
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.config.url import EXPECTED_URL, is_allowed_url, redact_url, url_names
from dp_pipeline.config.yaml_text import Document, Value, flow_mapping

_ANOTHER = "a text of another form"
"""Text of messages in place of one that may be secret."""

_EXPECTED_HASH = "64 hexadecimal digits (0-9, a-f)"
_HASH = "^[0-9a-f]{64}$"

_URL_SCHEMA = {"type": "string", "pattern": "^https?://"}
_HASH_SCHEMA = {"type": ["string", "number"], "pattern": _HASH}

Url = Annotated[str, fields.text_that(is_allowed_url, EXPECTED_URL, _URL_SCHEMA, got=_ANOTHER)]
Hash = Annotated[
    str, fields.text_that(re.compile(_HASH).fullmatch, _EXPECTED_HASH, _HASH_SCHEMA, got=_ANOTHER)
]
_ONE_QUERY = "one SELECT without a semicolon, or WITH … SELECT"


def _is_query(text: str) -> bool:
    require(";" not in text.strip().removesuffix(";"), _ONE_QUERY, "a semicolon before its end")
    return database.is_one_query(text)


Query = Annotated[str, fields.text_that(_is_query, _ONE_QUERY, got="another statement")]
_IS_DELIMITER = re.compile(rf'[^"\r\n\x80-\U0010ffff]|{WHITESPACE}').fullmatch
Delimiter = Annotated[str, fields.text_that(_IS_DELIMITER, f"one character or {WHITESPACE}")]
_EXPECTED_COMMENT = "one character, neither delimiter nor quote"
Comment = Annotated[str, fields.text_that(re.compile("[ !#-~]").fullmatch, _EXPECTED_COMMENT)]
_MAX_LINES = 100
_OVER_LINES = ("hz", "idna", "iso2022", "punycode", "raw-unicode", "unicode-escape", "utf-7")
"""Encodings in which a line may say how the lines behind it are read: a row of one person could
change those of others."""


def _is_encoding(text: str) -> bool:
    """Return whether a text names an encoding of Python that decodes each line on its own."""
    try:
        # It refuses encodings of bytes, such as base64.
        b"a".decode(text, "replace")
        return not codecs.lookup(text).name.startswith(_OVER_LINES)
    except (LookupError, UnicodeError, ValueError):
        return False


Codec = Annotated[str, fields.text_that(_is_encoding, "a text encoding of lines, such as cp1252")]


class SampleSection(fields.Section):
    """A number of rows, each class in proportion, drawn from a seed.

    rows  The number of rows.
    by    The attribute whose levels are the classes.
    seed  The seed of the choice.
    """

    rows: fields.Count
    by: fields.Text
    seed: fields.Index


class _Sampled(fields.Section):
    """A source of which a benchmark may read a sample.

    sample  Number of rows drawn by a seed, each class in proportion; on benchmarks only.
    """

    sample: SampleSection | None = None


class CsvForm(fields.Section):
    """The form of CSV files.

    delimiter   One character, or whitespace.
    header      Names of columns, if the first line has none.
    comment     The first character of lines that are no rows.
    encoding    The encoding of the text, if it is not UTF-8: cp1252, latin-1, utf-16, …
    multiline   The number of lines that a quoted cell of sensitive rows may have; 1 if absent.
    header_row  The line that has the names of columns, if it is not the first.
    footer      The number of lines at the end that are no rows.
    """

    delimiter: Delimiter | None = None
    header: fields.ListOf[fields.Item] | None = None
    comment: Comment | None = None
    encoding: Codec | None = None
    multiline: Annotated[int, fields.integer(1, _MAX_LINES)] | None = None
    header_row: fields.Count | None = None
    footer: fields.Index | None = None

    @model_validator(mode="after")
    def _require_names_once(self) -> Self:
        is_single = self.header is None or self.header_row is None
        require(is_single, "header or header_row", "both", "header_row")
        return self


class _Downloaded(fields.Section):
    """Files that are downloaded.

    at_most_mb  The most that one URL may give, in megabytes.
    """

    at_most_mb: fields.Count


class OneUrl(_Downloaded):
    """A file that is downloaded.

    url         The URL of the file.
    sha256      The SHA-256 of the file; required for sensitive rows.
    """

    url: Url
    sha256: Hash | None = None


class SeveralUrls(_Downloaded):
    """Files of one form that are downloaded.

    urls        The URLs of the files.
    sha256      The SHA-256 of each file; required for sensitive rows.
    """

    urls: fields.NonEmpty[Url]
    sha256: fields.ListOf[Hash] | None = None


class CsvDownload(CsvForm, OneUrl):
    """A CSV file that is downloaded if the declared one is absent."""


class CsvDownloads(CsvForm, SeveralUrls):
    """CSV files that are downloaded if a declared one is absent."""


_AnyDownload = CsvDownload | CsvDownloads


def _csv_download(value: object) -> _AnyDownload:
    form = CsvDownloads if "urls" in fields.require_mapping(value) else CsvDownload
    return form.model_validate(value)


class _CsvFiles(CsvForm, _Sampled):
    """CSV files.

    download  The files that are downloaded if a declared one is absent.
    """

    kind: Literal["csv"]
    download: Annotated[_AnyDownload, fields.FormChoice(_AnyDownload, _csv_download)] | None = None


class CsvFile(_CsvFiles):
    """A CSV file.

    path      A path from this file's folder, or $DP_PIPELINE_DATA/…
    """

    path: fields.Text


class CsvFiles(_CsvFiles):
    """Several CSV files of one form.

    paths     Paths from this file's folder, or $DP_PIPELINE_DATA/…
    """

    paths: fields.NonEmpty[fields.Item]


class CsvAtUrl(CsvForm, OneUrl, _Sampled):
    """A CSV file at a URL."""

    kind: Literal["csv"]


class CsvAtUrls(CsvForm, SeveralUrls, _Sampled):
    """CSV files at URLs."""

    kind: Literal["csv"]


class ParquetFile(_Sampled):
    """A Parquet file, or a folder of them.

    path      A path from this file's folder, or $DP_PIPELINE_DATA/…
    download  The file that is downloaded if the declared one is absent.
    snapshot  copy, or in_place: the files are read where they are, and must not change.
    """

    kind: Literal["parquet"]
    path: fields.Text
    download: OneUrl | None = None
    snapshot: Literal["copy", "in_place"] = "copy"

    @model_validator(mode="after")
    def _require_copy(self) -> Self:
        is_copy = self.snapshot == "copy"
        expected = "copy, where rows are downloaded"
        require(is_copy or self.download is None, expected, "in_place", "snapshot")
        expected = "copy, where rows are sampled"
        require(is_copy or self.sample is None, expected, "in_place", "snapshot")
        return self


class ParquetAtUrl(OneUrl, _Sampled):
    """A Parquet file at a URL."""

    kind: Literal["parquet"]


class Spreadsheet(_Sampled):
    """A spreadsheet.

    path        A path from this file's folder, or $DP_PIPELINE_DATA/…
    sheet       The name of the sheet; the first one if not given.
    header_row  The row that has the names of columns, if it is not the first.
    footer      The number of lines at the end that are no rows.
    """

    kind: Literal["xlsx"]
    path: fields.Text
    sheet: fields.Text | None = None
    header_row: fields.Count = 1
    footer: fields.Index = 0


class Database(fields.Section):
    """A query to a database.

    database  $NAME of a variable with a URL, sqlite:///path, or duckdb:///path.
    query     A single SELECT.
    """

    kind: Literal["sql"]
    database: fields.Text
    query: Query

    @model_validator(mode="before")
    @classmethod
    def _require_every_row(cls, value: object) -> object:
        # Rows of a query have no fixed order, from which a sample could be drawn again.
        is_whole = "sample" not in fields.require_mapping(value)
        require(is_whole, "every row of a query", "a sample of them", "sample")
        return value


class _Named(_Sampled):
    """A source that is identified by a name.

    options  Rows and seed: {rows: 1000, seed: 1}.
    """

    name: fields.Text
    options: fields.MappingOf[fields.Index] = Field(default_factory=dict)


class Bundled(_Named):
    """A data set that is bundled with scikit-learn."""

    kind: Literal["sklearn"]


class Generated(_Named):
    """Rows of a generator."""

    kind: Literal["generator"]


_Files = CsvFile | CsvFiles | ParquetFile | Spreadsheet
_AtUrls = CsvAtUrl | CsvAtUrls | ParquetAtUrl
_SourceSection = _Files | _AtUrls | Database | Bundled | Generated
_FORMS: dict[str, dict[str, type[_SourceSection]]] = {
    "csv": {"url": CsvAtUrl, "urls": CsvAtUrls, "paths": CsvFiles, "": CsvFile},
    "parquet": {"url": ParquetAtUrl, "urls": ParquetAtUrl, "": ParquetFile},
    "xlsx": {"": Spreadsheet},
    "sql": {"": Database},
    "sklearn": {"": Bundled},
    "generator": {"": Generated},
}
"""Kind → a field that only one form has → that form; the last form is for no such field."""


def _source_section(value: object) -> _SourceSection:
    section = fields.require_mapping(value)
    kind = section.get("kind")
    if not isinstance(kind, str) or kind not in _FORMS:
        raise fields.not_among(kind, _FORMS, field=("kind",))
    form = next(form for field, form in _FORMS[kind].items() if field in (*section, ""))
    return form.model_validate(section)


AnySource = Annotated[_SourceSection, fields.FormChoice(_SourceSection, _source_section)]


def source_of(section: _SourceSection, folder: Path, *, is_release: bool) -> Source:
    """Return the source that a section declares, without its sample.

    folder       folder of the data set file, where its paths begin
    is_release   whether rows are sensitive, so that a download needs a hash

    The environment is read: for the folder of data, and for the address of a database. FieldError
    for contradictory fields.
    """
    match section:
        case Database():
            return _database(section, folder)
        case Bundled() | Generated():
            return Source(section.kind, section.name, options=section.options)
        case CsvAtUrl() | CsvAtUrls() | ParquetAtUrl():
            return _downloaded(section, Source(section.kind, ""), is_release=is_release)
        case CsvFiles():
            paths = [_path(text, folder, "paths") for text in section.paths]
        case _:
            paths = [_path(section.path, folder, "path")]
    locations = tuple(location for location, _ in paths)
    is_unique = len(set(locations)) == len(locations)
    require(is_unique, "different files", "the same file twice", "paths")
    variable = next((variable for _, variable in paths if variable), None)
    source = Source(section.kind, locations[0], more=locations[1:], needs=variable)
    if isinstance(section, Spreadsheet):
        sheet, header_row, footer = section.sheet or "", section.header_row, section.footer
        return replace(source, sheet=sheet, header_row=header_row, footer=footer)
    source = _with_form(source, section)
    if isinstance(section, ParquetFile):
        source = replace(source, in_place=section.snapshot == "in_place")
    if section.download is None:
        return source
    with below("download"):
        download = _downloaded(section.download, source, is_release=is_release)
    # With a download no variable has to be set.
    return replace(source, needs=None, download=download)


def _with_form(source: Source, section: fields.Section) -> Source:
    if not isinstance(section, CsvForm):
        return source
    form = section.model_dump(include={*CsvForm.model_fields}, exclude_none=True)
    source = replace(source, **form)
    is_apart = section.comment is None or source.comment != source.delimiter
    require(is_apart, _EXPECTED_COMMENT, repr(source.comment), "comment")
    return source


def _downloaded(section: OneUrl | SeveralUrls, form: Source, *, is_release: bool) -> Source:
    """Return the source that downloads one or more URLs.

    form         a source with the form of the files
    is_release   whether rows are sensitive, so that a hash is required: the owner of a URL must not
                 choose whose rows are released

    FieldError for a URL that is there twice, and for other than one hash of each.
    """
    urls = (section.url,) if isinstance(section, OneUrl) else section.urls
    hashes = (section.sha256,) if isinstance(section.sha256, str) else section.sha256
    names: set[str] = set()
    # The rows of a repeated file would be counted twice.
    expected = "URLs that differ in more than a query, capital letters or slashes"
    for url in urls:
        is_new = names.isdisjoint(url_names(url))
        require(is_new, expected, f"{redact_url(url)} for a second time", "urls")
        names.update(url_names(url))
    expected = "the hash of sensitive data that is downloaded"
    require(hashes is not None or not is_release, expected, "nothing", "sha256")
    count = len(urls) if hashes is None else len(hashes)
    expected = f"as many hashes as URLs, which are {len(urls)}"
    require(count == len(urls), expected, str(count), "sha256")
    return replace(
        _with_form(form, section),
        location=urls[0],
        more=urls[1:],
        needs=None,
        sha256=dict(zip(urls, hashes or (), strict=hashes is not None)),
        at_most_mb=section.at_most_mb,
    )


def _path(text: str, folder: Path, field: str) -> tuple[str, str | None]:
    """Return (absolute path, name of the environment variable that it begins with, or None).

    While that variable is not set, the path is ``text``.
    """
    require("\0" not in text, "a path without the character U+0000", repr(text[:60]), field)
    variable, _, below_data = text.partition("/")
    if variable != f"${DATA_FOLDER_VARIABLE}":
        require("$" not in text, f"no variable but ${DATA_FOLDER_VARIABLE}", repr(text[:60]), field)
        return str(follow_links(folder / text)), None
    data = os.environ.get(DATA_FOLDER_VARIABLE)
    return (str(follow_links(Path(data, below_data))) if data else text), DATA_FOLDER_VARIABLE


def _database(section: Database, folder: Path) -> Source:
    # No message shows the text of a variable, which may hold a password.
    match = re.fullmatch(r"\$([A-Z_][A-Z0-9_]*)", section.database)
    if match is None:
        prefix, path = database.split_database_file(section.database) or ("", "")
        is_odd = path in ("", ":memory:") or path.startswith("file:")
        forms = f"{database.SQLITE}path, {database.DUCKDB}path"
        expected = f"{forms}, or $NAME of a variable with the URL of a database"
        require(not is_odd and "?" not in path, expected, _ANOTHER, "database")
        location, data_variable = _path(path, folder, "database")
        return Source("sql", f"{prefix}{location}", needs=data_variable, query=section.query)
    variable = match[1]
    text = os.environ.get(variable)
    url = database.database_url(text) if text else None
    expected = f"{database.EXPECTED_DATABASE} in {variable}"
    require(url is not None or not text, expected, _ANOTHER, "database")
    location = f"${variable}" if url is None else database.database_name(url)
    return Source("sql", location, needs=variable, query=section.query)


class _Draft(fields.Section):
    """A data set file of which only the source is read."""

    source: AnySource


def drafted_source(section: Mapping[str, Value], path: Path) -> Source:
    """Return the source that a section declares for a new data set file at ``path``.

    DeclarationError for the first mistake. No file is opened.
    """
    document = Document.of_text(f"source: {flow_mapping(section)}", path)
    with fields.locate_errors(document), below("source"):
        drafted = _Draft.model_validate(document.texts).source
        return source_of(drafted, path.parent, is_release=False)

"""The source of a data set file: paths, URLs, a database, or a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dp_pipeline.schema.database_parser import parse_database
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.name import did_you_mean
from dp_pipeline.schema.path_parser import parse_path
from dp_pipeline.schema.source import WHITESPACE, Sample, Source
from dp_pipeline.schema.url_parser import parse_urls


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

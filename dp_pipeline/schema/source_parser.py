"""The source of a data set file: paths beside the file or in the data folder, or a name."""

from __future__ import annotations

import os
from pathlib import Path

from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import Levels
from dp_pipeline.schema.fields import Fields
from dp_pipeline.schema.source import DATA_FOLDER_VARIABLE, Sample, Source


def parse_source(section: Fields, folder: Path, domain: Domain, *, is_release: bool) -> Source:
    """Read the source.

    folder       the data set file's, where its paths begin
    domain       the declared attributes, by one of which rows may be sampled
    is_release   whether rows are sensitive: then none is sampled
    """
    kind = section.text("kind", choices=("csv", "parquet", "sklearn", "generator"))
    needs = None
    if kind in ("sklearn", "generator"):
        locations: tuple[str, ...] = (section.text("name"),)
    else:
        locations, needs = _paths(section, kind, folder)
    options = {}
    if "options" in section:
        nested = section.section("options")
        options = {name: nested.integer(name, at_least=0) for name in nested}
    source = Source(
        kind=kind,  # type: ignore[arg-type]
        location=locations[0],
        delimiter=_delimiter(section),
        header=section.texts("header") if "header" in section else (),
        options=options,
        needs=needs,
        more=locations[1:],
        comment=_comment(section) if kind == "csv" else "",
        sample=_sample(section, domain, is_release) if "sample" in section else None,
    )
    section.finish()
    return source


def _paths(section: Fields, kind: str, folder: Path) -> tuple[tuple[str, ...], str | None]:
    """Every path, and the variable that they need."""
    if kind != "csv" or "paths" not in section:
        location, needs = _path(section, "path", section.text("path"), folder)
        return (location,), needs
    found = [_path(section, "paths", text, folder) for text in section.texts("paths")]
    locations = tuple(location for location, _ in found)
    if not locations or len(set(locations)) < len(locations):
        section.refuse("paths", "one or more different files", str(len(locations)))
    return locations, next((needs for _, needs in found if needs), None)


def _sample(source: Fields, domain: Domain, is_release: bool) -> Sample:
    if is_release:
        # A row's place in a sample depends on the other rows, so no protection would hold.
        source.refuse("sample", "every row of sensitive data", "a sample of them")
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
        section.refuse("by", expected, repr(sample.by[:60]))
    return sample


def _comment(section: Fields) -> str:
    """The character that begins a line which is no row; none when not declared."""
    if "comment" not in section:
        return ""
    text = section.text("comment")
    taken = {'"', section.text("delimiter", ",")}
    if len(text) != 1 or not text.isascii() or not text.isprintable() or text in taken:
        section.refuse("comment", "one character, neither delimiter nor quote", repr(text[:60]))
    return text


def _delimiter(section: Fields) -> str:
    text = section.text("delimiter", ",")
    if len(text) != 1 or not text.isascii() or text in '"\r\n':
        section.refuse("delimiter", "one character", repr(text[:60]))
    return text


def _path(section: Fields, field: str, location: str, folder: Path) -> tuple[str, str | None]:
    """A path beside the data set file, or in the data folder that a variable names."""
    head, _, rest = location.partition("/")
    if head != f"${DATA_FOLDER_VARIABLE}":
        if "$" in location:
            section.refuse(field, f"no variable but ${DATA_FOLDER_VARIABLE}", repr(location[:60]))
        return str((folder / location).resolve()), None
    data = os.environ.get(DATA_FOLDER_VARIABLE)
    return (str(Path(data, rest).resolve()) if data else location), DATA_FOLDER_VARIABLE

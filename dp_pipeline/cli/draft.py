"""`dp-pipeline data init`: the draft of a data set file, from names and types of columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_pipeline.config.database import split_database_file
from dp_pipeline.config.errors import EXPECTED_NAME, DeclarationError, is_name
from dp_pipeline.config.system_errors import follow_links
from dp_pipeline.config.yaml_text import TODO

if TYPE_CHECKING:
    from dp_pipeline.config.source import Source
    from dp_pipeline.config.yaml_text import Value

_FILES = ("sqlite:///", "duckdb:///")
_FROM = (
    "A CSV or Parquet file, a spreadsheet (.xlsx), a folder of Parquet files, or a database: "
    "sqlite:///PATH, duckdb:///PATH, or '$NAME' of a variable with its URL."
)
_DELIMITER = "The delimiter of a CSV file; by default the likely one."
_PUBLIC = "Anyone may see the rows: look at all of them, and propose levels and bounds."
_FOLDER = "Where to write; by default the folder of DP_PIPELINE_DATASETS, or this one."


@click.command("init")
@click.argument("name")
@click.option("--from", "origin", required=True, help=_FROM)
@click.option("--query", default="", help="The rows of a database: one SELECT.")
@click.option("--header", default="", help="Names, with commas, for a CSV file without any.")
@click.option("--delimiter", default="", help=_DELIMITER)
@click.option("--person", default="", help="The column that names a person with several rows.")
@click.option("--public", is_flag=True, help=_PUBLIC)
@click.option("--folder", type=click.Path(path_type=Path), help=_FOLDER)
def data_init(
    name: str, origin: str, person: str, public: bool, folder: Path | None, **form: str
) -> None:
    """Write the draft of a data set file, NAME.yaml.

    It is to be finished with an editor, for which the JSON Schema is put next to it. It is made
    from names and types of columns alone, and for a CSV file from its first line: no row is read,
    unless the rows are public.
    """
    from dp_pipeline.config.catalogue import DATASETS_VARIABLE
    from dp_pipeline.config.source_parser import drafted_source

    where = folder or Path(os.environ.get(DATASETS_VARIABLE) or ".")
    path = follow_links(where) / f"{name}.yaml"
    _require_new(name, path)
    fields = _source_fields(origin, path.parent, is_public=public, **form)
    origin_name = "a query" if form["query"] else Path(origin).name
    source = drafted_source(fields, path)
    if public:
        _require_unclaimed(name, source)
    elif form["header"] and not form["delimiter"]:
        # The first line is a row: it must not be looked at.
        fields["delimiter"] = TODO
    _write(path, _draft(name, source, fields, origin=origin_name, person=person, public=public))
    click.echo(f"{where / path.name}: written" + ("" if public else "; decide every TODO in it"))
    if follow_links(os.environ.get(DATASETS_VARIABLE) or "/") != path.parent:
        click.echo(f"export {DATASETS_VARIABLE}={path.parent}")
    click.echo(f"dp-pipeline data check {where / path.name}")


def _source_fields(
    origin: str, folder: Path, *, query: str, header: str, delimiter: str, is_public: bool = False
) -> dict[str, Value]:
    """Return the section ``source`` of a data set file in ``folder``.

    origin                     a path, ``sqlite:///path``, ``duckdb:///path``, or ``$NAME`` of a
                               variable with a database's URL
    query, header, delimiter   empty where they are not given

    Of a CSV file the beginning is read, but no row of a sensitive one. DeclarationError for options
    that do not fit the origin, SourceError for a CSV file without a first line.
    """
    from dp_pipeline.config.source import DATA_FOLDER_VARIABLE

    is_database = origin.startswith((*_FILES, "$")) and not origin.startswith(
        f"${DATA_FOLDER_VARIABLE}/"
    )
    if "://" in origin and not origin.startswith(_FILES):
        # Not quoted: there may be a password in it.
        raise DeclarationError(
            "data init: the source must be a path, sqlite:///PATH, duckdb:///PATH or '$NAME' of "
            "a variable with the URL of a database, not a URL itself"
        )
    if is_database != bool(query):
        raise DeclarationError(
            f"data init: {'a database needs' if is_database else 'only a database has'} --query: "
            f"{'add it' if is_database else 'leave it out'}"
        )
    if is_database:
        file = split_database_file(origin)
        return {
            "kind": "sql",
            "database": origin if file is None else file[0] + _path(Path(file[1]), folder),
            "query": query,
        }
    path = Path(os.path.expandvars(origin))
    kind = "parquet" if path.is_dir() or path.suffix == ".parquet" else "csv"
    kind = "xlsx" if path.suffix.lower() in (".xlsx", ".xlsm") else kind
    fields: dict[str, Value] = {"kind": kind, "path": _path(path, folder)}
    if kind == "csv":
        fields |= _form(path, header=header, delimiter=delimiter, is_public=is_public)
    elif header or delimiter:
        raise DeclarationError(
            f"data init: only a CSV file has {'--header' if header else '--delimiter'}, and "
            f"{path} is none: leave it out"
        )
    return fields


def _form(path: Path, *, header: str, delimiter: str, is_public: bool) -> dict[str, Value]:
    from dp_pipeline.raw.proposals import likely_delimiter, likely_encoding

    can_look = is_public or not header
    encoding = likely_encoding(path, is_public=is_public) if can_look else ""
    chosen = delimiter or (likely_delimiter(path, encoding) if can_look else ",")
    names = [name.strip() for name in header.split(",")] if header else []
    return {
        **({"encoding": encoding} if encoding else {}),
        **({} if chosen == "," else {"delimiter": chosen}),
        **({"header": names} if names else {}),
    }


def _path(path: Path, folder: Path) -> str:
    """Return a path as text, relative to ``folder`` or the folder of data if it is inside."""
    from dp_pipeline.config.source import DATA_FOLDER_VARIABLE

    there, data = follow_links(path), os.environ.get(DATA_FOLDER_VARIABLE)
    if there.is_relative_to(folder):
        return str(there.relative_to(folder))
    if data and there.is_relative_to(follow_links(data)):
        return f"${DATA_FOLDER_VARIABLE}/{there.relative_to(follow_links(data))}"
    return str(there)


def _require_new(name: str, path: Path) -> None:
    from dp_pipeline.config.catalogue import dataset_files

    if not is_name(name):
        raise DeclarationError(
            f"data init: the name must have {EXPECTED_NAME}, but it is {name[:60]!r}: choose "
            "another"
        )
    existing = path if path.exists() else dataset_files().get(name)
    if existing is not None:
        words = f"the data set {existing} has this name already"
        raise DeclarationError(f"data init: {words}: choose another")


def _require_unclaimed(name: str, source: Source) -> None:
    """Raise DeclarationError if the source or a population called ``name`` is claimed for releases,
    so that its rows are not public. Outside a project nothing is raised."""
    from dp_pipeline.releases.home import find_home

    try:
        home = find_home()
    except DeclarationError:
        return  # Without a project there is no population.
    home.ledger.require_claimable(name, *source.identities)


def _draft(
    name: str,
    source: Source,
    fields: dict[str, Value],
    *,
    origin: str,
    person: str,
    public: bool,
) -> str:
    from dp_pipeline.config.draft import Outline, attribute_names, public_draft, sensitive_draft
    from dp_pipeline.raw.proposals import propose_columns, read_schema

    columns, rows = read_schema(source), 0
    if person:
        column = next((column for column in columns if column.name == person), None)
        if column is None:
            raise DeclarationError(
                f"data init: the source has no column {person[:60]!r} for persons: name one of its "
                "columns"
            )
        if not (column.is_integer or column.kind in ("text", "unknown")):
            raise DeclarationError(
                f"data init: the person's column {person[:60]!r} must hold text or whole numbers, "
                f"not the type {column.type}: write it as int64 or text"
            )
    columns = tuple(column for column in columns if column.name != person)
    if public:
        rows, columns = propose_columns(source, columns, name=name)
    outline = Outline(name, origin, fields, attribute_names(columns), person or None)
    return public_draft(outline, rows=rows) if public else sensitive_draft(outline)


def _write(path: Path, text: str) -> None:
    """Write a new file, and the JSON Schema if it is absent; DeclarationError if it cannot."""
    from dp_pipeline.cli.json_schema import schema_text
    from dp_pipeline.config.draft import SCHEMA_FILE

    schema = path.with_name(SCHEMA_FILE)
    texts = {path: text} if schema.exists() else {path: text, schema: schema_text()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, content in texts.items():
            with file.open("x", encoding="utf-8") as opened:
                opened.write(content)
    except OSError as error:
        raise DeclarationError(
            f"data init: {error.filename or path} cannot be written ({error.strerror}): "
            "choose another place"
        ) from None


@click.command("schema")
def data_schema() -> None:
    """Print the JSON Schema of data set files, for editors."""
    from dp_pipeline.cli.json_schema import schema_text

    click.echo(schema_text(), nl=False)

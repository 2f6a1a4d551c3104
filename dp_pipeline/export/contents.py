"""The files of an export: tables of a release, maps, card, charges, and their description.

``datapackage.json`` is a Data Package of the Frictionless standard, version 2, which describes
files, columns, types, levels and digests to other programs (docs/design/exports.md).
"""

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import SIZE, Attribute
from dp_pipeline.config.encoding import Bins, Point
from dp_pipeline.config.formats import FORMAT
from dp_pipeline.export.evidence import evidence
from dp_pipeline.export.folder import (
    DESCRIPTOR,
    OWN,
    RELEASE,
    SUMS,
    file_digest,
    files_of,
    sums_text,
)
from dp_pipeline.export.intervals import added_columns
from dp_pipeline.export.readme import DOCUMENTS, README, described_publisher, readme_text
from dp_pipeline.export.tables import (
    CENTRES,
    COMMA,
    DELIMITERS,
    MAP,
    POINT,
    geojson,
    has_missing,
    place_of,
    types_of,
    write_table,
)
from dp_pipeline.reporting.figures import cluster_view
from dp_pipeline.reporting.metrics import bought_rows, sort_rows
from dp_pipeline.reporting.releases import (
    ReportedPrivateRelease,
    ReportedRelease,
    mechanisms_of,
    standing_of,
)
from dp_pipeline.reporting.rendering import card_page
from dp_pipeline.reporting.text import cost_text, escape_markdown
from dp_pipeline.results.bundle import TABLES, Bundle
from dp_pipeline.results.clusters import Columns, Tables, row_count
from dp_pipeline.results.source_types import StoredColumn, stored_columns, typed_levels
from dp_pipeline.results.synthetic_table import PART, UNIT
from dp_pipeline.spreadsheet import escape_formula

CARD = "card"
"""The name of the three files of the card, without their endings."""

_MOST_MECHANISMS, _MOST_NUMBERS = 12, 10
"""Lines of mechanisms and of quality numbers that ``card.md`` has, at most."""


def guarantee(bundle: Bundle) -> dict[str, Any]:
    """Return guarantee, charges, quality and sizes of a release for JSON, exact amounts as texts.

    Every entry follows from the bundle, so that ``verify`` can compute it again from the folder."""
    return {
        "standing": str(standing_of(bundle)),
        "cleared": is_cleared(bundle),
        "caveat": bundle.caveat,
        "kind": bundle.kind,
        "epsilon": epsilon_text(bundle.epsilon) if bundle.is_dp else "none",
        "spent": bundle.spent_text,
        "currency": bundle.currency.name,
        "own_delta": str(bundle.own_delta),
        "charges": len(bundle.spends),
        "mechanisms": [
            {"mechanism": name, "scale": scale, "charges": charges, "cost": str(cost)}
            for name, scale, charges, cost in mechanisms_of(bundle)
        ],
        "quality": {name: vars(number) for name, number in bundle.quality.items()},
        "lines": {name: row_count(table) for name, table in bundle.tables.items()},
        "facts": dict(bundle.facts),
        "key": bundle.key,
        "answers": bundle.transcript,
    }


def is_cleared(bundle: Bundle) -> bool:
    """Return whether a release may be exported without further permission.

    It may if the requested ε holds for it and its noise was not drawn from a known seed."""
    return bundle.is_dp and not bundle.caveat and bundle.is_releasable


def card_json(release: ReportedRelease) -> bytes:
    spec = release.spec
    population = {"name": spec.population}
    if isinstance(release, ReportedPrivateRelease) and release.balance is not None:
        balance = release.balance
        population |= {
            "currency": balance.currency.name,
            "spent": epsilon_text(balance.spent),
            "ceiling": "none" if balance.ceiling is None else epsilon_text(balance.ceiling),
            "delta": str(balance.delta_spent or Fraction(0)),
        }
    content = {
        "format": FORMAT,
        "release": release.name,
        "guarantee": guarantee(release.bundle),
        "data set": {
            "title": spec.title,
            "description": spec.description,
            "unit": str(spec.protection),
            "relation": spec.relation,
        },
        "method": release.summary,
        "warnings": list(release.warnings),
        "other non-DP releases": list(release.non_dp_releases),
        "population": population,
    }
    return f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode()


def lines_on_card(bundle: Bundle) -> list[str]:
    """Return the Markdown texts that ``card.md`` of a release must contain."""
    first = [str(standing_of(bundle)), bundle.key]
    if not bundle.is_dp:
        return first if bundle.is_k_anonymous else [*first, escape_markdown(bundle.caveat)]
    lines = [
        f"| {escape_markdown(name)} | {escape_markdown(scale)} | {charges:,} | "
        f"{escape_markdown(cost_text(cost))} |"
        for name, scale, charges, cost in mechanisms_of(bundle)[:_MOST_MECHANISMS]
    ]
    quality = [
        f"| {escape_markdown(row.text)} | {escape_markdown(row.reading)} |"
        for row in sort_rows(bought_rows(bundle))[:_MOST_NUMBERS]
    ]
    return [
        *first,
        bundle.transcript,
        f"{escape_markdown(bundle.spent_phrase)} exactly",
        *quality,
        *lines,
    ]


SYNTHETIC, UNITS, CODES, SIZES = "synthetic", "units", "codes", "sizes"

_FIRST = (UNITS, SYNTHETIC, CENTRES, MAP, "classes", "released")
"""Tables for most readers; the others are in the folder ``_DETAILS``."""

_DETAILS = "details"

_PROFILES = "https://datapackage.org/profiles/2.0"
_MEDIA = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.file",
    ".geojson": "application/geo+json",
    ".json": "application/json",
    ".md": "text/markdown",
    ".html": "text/html",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}


class Sheet(NamedTuple):
    """A table of an export.

    name         name in the release
    path         path of the file in the exported folder
    table        columns of the release and, after them, those that an export computes from them
    added        names of the computed columns
    attributes   column → the declared attribute that it shows
    stored       column → its type in the source, for synthetic rows in Parquet or Arrow
    """

    name: str
    path: str
    table: Columns
    added: list[str]
    attributes: dict[str, Attribute]
    stored: dict[str, StoredColumn]

    @property
    def title(self) -> str:
        return TABLES.get(self.name, "A table of the release")


def sheets_of(release: ReportedRelease, ending: str) -> list[Sheet]:
    """Return the tables of an export, the most useful ones first.

    ending   format of their files: ``csv``, ``parquet`` or ``arrow``

    Sizes of clusters are no table here, but a column of their centres.
    """
    tables = release.bundle.tables
    paths = {name: name for name in _FIRST if name in tables}
    details = [name for name in tables if name not in (*_FIRST, SIZES)]
    paths |= {name: f"{_DETAILS}/{name}" for name in details}
    return [_sheet(name, f"{path}.{ending}", release) for name, path in paths.items()]


def _sheet(name: str, path: str, release: ReportedRelease) -> Sheet:
    tables = release.bundle.tables
    table, added = tables[name], added_columns(name, tables)
    if added:
        table = {**table, **added}
    attributes = dict(_attributes(name, table, release.spec, tables))
    stored = {}
    if name == SYNTHETIC and not path.endswith(".csv"):
        stored = stored_columns(attributes.items(), release.bundle.facts)
    return Sheet(name, path, table, list(added), attributes, stored)


def write_contents(
    folder: Path, release: ReportedRelease, card: str, ending: str, *, day: str
) -> None:
    """Write all files of an export into an empty folder.

    card     text of the card, in Markdown
    ending   format of the tables: ``csv``, ``parquet`` or ``arrow``
    day      day on which the release was settled, such as 2026-11-27
    """
    sheets, sign = sheets_of(release, ending), decimal_sign(release.spec)
    for sheet in sheets:
        (folder / sheet.path).parent.mkdir(exist_ok=True)
        write_table(folder / sheet.path, sheet.table, decimal=sign, stored=sheet.stored)
    documents = {
        f"{CARD}.md": card.encode(),
        f"{CARD}.html": card_page(card).encode(),
        f"{CARD}.json": card_json(release),
        RELEASE: f"{release.bundle.to_json()}\n".encode(),
    }
    place = place_of(release.spec, release.bundle.tables)
    if place is not None:
        places = [sheet for sheet in sheets if sheet.name in (CENTRES, MAP)]
        documents |= {f"{s.name}.geojson": geojson(s.name, s.table, place) for s in places}
    if isinstance(release, ReportedPrivateRelease) and is_cleared(release.bundle):
        documents |= evidence(release, day)
    titles = {sheet.path: sheet.title for sheet in sheets}
    titles |= {path: DOCUMENTS.get(path, "") for path in documents}
    documents[README] = readme_text(release, titles).encode()
    for path, content in documents.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    descriptor = _descriptor(folder, release, sheets, place)
    (folder / DESCRIPTOR).write_text(
        f"{json.dumps(descriptor, indent=1, ensure_ascii=False)}\n", encoding="utf-8"
    )
    (folder / SUMS).write_text(sums_text(folder), encoding="utf-8")


def _descriptor(
    folder: Path, release: ReportedRelease, sheets: list[Sheet], place: Point | None
) -> dict[str, Any]:
    spec, bundle = release.spec, release.bundle
    tables = {sheet.path: _table_fields(sheet, decimal_sign(spec)) for sheet in sheets}
    paths = dict.fromkeys((*tables, *files_of(folder)))
    return {
        "$schema": f"{_PROFILES}/datapackage.json",
        "name": f"{spec.name}.{bundle.facts['model']}",
        "id": bundle.key,
        "title": f"{spec.title}, by {release.name}",
        "description": f"{release.standing}. {spec.description}",
        **described_publisher(spec),
        "resources": [{**_resource(folder, path), **tables.get(path, {})} for path in paths],
        OWN: {
            "format": FORMAT,
            "dataset": spec.name,
            "model": bundle.facts["model"],
            "standing": str(release.standing),
            "place": None if place is None else list(place),
        },
    }


def _resource(folder: Path, path: str) -> dict[str, Any]:
    file = folder / path
    is_text = file.suffix not in (".parquet", ".arrow")
    return {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": path,
        "path": path,
        "format": file.suffix[1:],
        "mediatype": _MEDIA[file.suffix],
        **({"encoding": "utf-8"} if is_text else {}),
        "bytes": file.stat().st_size,
        "hash": f"sha256:{file_digest(file)}",
    }


def _table_fields(sheet: Sheet, sign: str) -> dict[str, Any]:
    """Return the properties that only a table has in ``datapackage.json``.

    sign   the decimal sign of CSV files
    """
    is_csv, types = sheet.path.endswith(".csv"), types_of(sheet.table)
    fields = [
        _stored_field(name, sheet.stored[name], sheet.attributes[name])
        if name in sheet.stored
        else _field(name, types[name], sheet, is_csv=is_csv)
        for name in sheet.table
    ]
    dialect = {}
    if is_csv and sign != POINT:
        dialect = {"dialect": {"delimiter": DELIMITERS[sign]}}
        for field in fields:
            if field["type"] == "number":
                field["decimalChar"] = sign
    missing = [""] if has_missing(sheet.table) else []
    return {
        "name": sheet.name,
        "title": sheet.title,
        "type": "table",
        **dialect,
        "schema": {"fields": fields, "missingValues": missing, **_keys(sheet)},
        **({OWN: {"added": sheet.added}} if sheet.added else {}),
    }


_FIELD_TYPES = {"bool": "boolean", "categories": "string", "float": "number", "double": "number"}


def _stored_field(name: str, column: StoredColumn, attribute: Attribute) -> dict[str, Any]:
    is_decimal = column.type.startswith("decimal")
    word = "float" if is_decimal else column.type.removeprefix("ordered ")
    field: dict[str, Any] = {"name": name, "type": _FIELD_TYPES.get(word, "integer")}
    field[OWN] = {"levels": list(column.labels)}
    if not column.labels:
        return {**field, **_numeric_properties(attribute, is_drawn=True)}
    values = typed_levels(column.labels, column.type).values()
    enum = [float(value) if is_decimal else value for value in values]
    categories = {"categories": enum} if field["type"] == "string" else {}
    return {**field, **categories, "constraints": {"enum": enum}}


def decimal_sign(spec: DatasetSpec) -> str:
    """Return the decimal sign of exported CSV files: a comma if a column of the source has one.

    A spreadsheet reads all numbers of a file by the same sign."""
    signs = {attribute.signs.decimal for attribute in spec.domain if attribute.reads_numbers}
    return COMMA if COMMA in signs else POINT


def _keys(sheet: Sheet) -> dict[str, Any]:
    if sheet.name == UNITS:
        return {"primaryKey": [UNIT]}
    if sheet.name == SYNTHETIC and UNIT in sheet.table:
        reference = {"resource": UNITS, "fields": [UNIT]}
        foreign = {"fields": [UNIT], "reference": reference}
        return {"primaryKey": [UNIT, PART], "foreignKeys": [foreign]}
    return {}


def _attributes(
    name: str, table: Columns, spec: DatasetSpec, tables: Tables
) -> Iterator[tuple[str, Attribute]]:
    """Yield (column, attribute) for each column of a table that shows a declared attribute."""
    if name in (SYNTHETIC, UNITS):
        declared = [column for column in spec.domain if column.name in tables[CODES]]
        columns = list(table)
        if spec.domain.parts is not None:
            is_of_parts, of_parts = name == SYNTHETIC, spec.domain.parts.attributes
            declared = [
                attribute
                for attribute in declared
                if (attribute.name in of_parts) == is_of_parts and attribute.name != SIZE
            ]
            # Elsewhere a column may have the name of one of these keys.
            columns = [column for column in columns if column not in (UNIT, PART, SIZE)]
        yield from zip(columns, declared, strict=True)
    elif name in (CENTRES, CODES):
        columns = [column for column in table if column in spec.domain.names]
        yield from ((column, spec.domain[column]) for column in columns)


def _field(name: str, type_: str, sheet: Sheet, *, is_csv: bool) -> dict[str, Any]:
    attribute = sheet.attributes.get(name)
    cell = escape_formula(name) if is_csv else name
    field: dict[str, Any] = {"name": cell, "type": type_}
    if name == cluster_view.SIZE:
        return {**field, "description": "noisy number of rows, which may be below 0"}
    if name in sheet.added:
        end = "lower" if name.endswith("low") else "upper"
        return {**field, "description": f"{end} end of a 95 % interval for the true number"}
    if attribute is None:
        return field
    if sheet.name == CODES:
        return {**field, "constraints": {"minimum": 0, "maximum": attribute.size - 1}}
    if sheet.name in (SYNTHETIC, UNITS) and not isinstance(attribute.cells, Bins):
        levels = [] if attribute.cells is None else list(attribute.cells.labels())
        texts = [escape_formula(level) if is_csv else level for level in levels]
        return {**field, "categories": texts, "constraints": {"enum": texts}}
    return {**field, **_numeric_properties(attribute, is_drawn=sheet.name in (SYNTHETIC, UNITS))}


def _numeric_properties(attribute: Attribute, *, is_drawn: bool) -> Mapping[str, Any]:
    """Return a field's bounds and bins, or format or unit of dates, for ``datapackage.json``.

    is_drawn   whether the table has synthetic values, in which dates are no days or seconds

    {} for an attribute with levels.
    """
    coordinate, clock = attribute.coordinate, attribute.clock
    if coordinate is None:
        return {}
    if clock is not None and is_drawn:
        zone = f", on a clock in {clock.zone}" if clock.kind == "timestamp" else ""
        about = {"description": "from {} to {}".format(*attribute.range) + zone}
        form = {"type": _DATES[clock.kind], "format": clock.format} if clock.format else {}
        return {**about, **form}
    bounds = {"constraints": {"minimum": coordinate.lower, "maximum": coordinate.upper}}
    if clock is not None:
        unit = "days" if clock.kind == "date" else "seconds"
        return {**bounds, "description": f"{unit} since 1970-01-01T00:00:00Z"}
    if not isinstance(attribute.cells, Bins):
        return bounds
    names = {"bins": list(attribute.labels())} if attribute.names else {}
    return {**bounds, "edges": list(attribute.cells.edges), **names}


_DATES = {"date": "date", "timestamp": "datetime"}

"""The part of the JSON Schema about sources."""

from __future__ import annotations

from dp_pipeline.cli.editor_schema.values import (
    TEXT,
    Schema,
    choice,
    closed,
    list_of,
    said,
    whole,
)
from dp_pipeline.raw.generators import GENERATORS
from dp_pipeline.raw.sources.named import BUNDLED

_URL: Schema = {"type": "string", "pattern": "^https?://"}
_HASH: Schema = {"type": ["string", "number"], "pattern": "^[0-9a-f]{64}$"}
_MOST = said(whole(1), "The most that one URL may give, in megabytes.")

_FORM = {
    "delimiter": said(TEXT, "One character, or whitespace."),
    "header": said(list_of(TEXT), "Names of columns, where the first line has none."),
    "comment": said(TEXT, "The character that begins a line which is no row."),
}

_SAMPLE = said(
    closed({"rows": whole(1), "by": TEXT, "seed": whole(0)}, required=["rows", "by", "seed"]),
    "Some of the rows, each class in proportion: of benchmarks only.",
)

_ONE_URL = {"url": said(_URL, "Where it is downloaded from."), "sha256": _HASH, "at_most_mb": _MOST}
_URLS = {
    "urls": said(list_of(_URL, least=1), "Several files of one form."),
    "sha256": list_of(_HASH),
    "at_most_mb": _MOST,
}


def _download(form: dict[str, Schema], *, several: bool) -> Schema:
    """What is read where a file is absent."""
    one = closed({**_ONE_URL, **form}, required=["url", "at_most_mb"])
    if not several:
        return one
    return {"oneOf": [one, closed({**_URLS, **form}, required=["urls", "at_most_mb"])]}


def _of_kind(kind: str, own: dict[str, Schema], required: list[str]) -> Schema:
    return closed({"kind": choice(kind), **own}, required=["kind", *required])


_PATH = {"path": said(TEXT, "Beside this file, or $DP_PIPELINE_DATA/…")}
_PATHS = {"paths": said(list_of(TEXT, least=1), "Several CSV files of one form.")}
_CSV = {**_FORM, "sample": _SAMPLE}
_PARQUET = {"sample": _SAMPLE}
_OPTIONS: Schema = {"type": "object", "additionalProperties": whole(0)}

SOURCE: Schema = {
    "oneOf": [
        _of_kind("csv", {**_PATH, **_CSV, "download": _download(_FORM, several=True)}, ["path"]),
        _of_kind("csv", {**_PATHS, **_CSV, "download": _download(_FORM, several=True)}, ["paths"]),
        _of_kind("csv", {**_ONE_URL, **_CSV}, ["url", "at_most_mb"]),
        _of_kind("csv", {**_URLS, **_CSV}, ["urls", "at_most_mb"]),
        _of_kind(
            "parquet", {**_PATH, **_PARQUET, "download": _download({}, several=False)}, ["path"]
        ),
        _of_kind("parquet", {**_ONE_URL, **_PARQUET}, ["url", "at_most_mb"]),
        _of_kind(
            "sql",
            {
                "database": said(TEXT, "$NAME of a variable with a URL, or sqlite:///path."),
                "query": said(TEXT, "One SELECT."),
            },
            ["database", "query"],
        ),
        _of_kind(
            "sklearn", {"name": choice(*BUNDLED), "options": _OPTIONS, "sample": _SAMPLE}, ["name"]
        ),
        _of_kind(
            "generator",
            {"name": choice(*sorted(GENERATORS)), "options": _OPTIONS, "sample": _SAMPLE},
            ["name"],
        ),
    ]
}

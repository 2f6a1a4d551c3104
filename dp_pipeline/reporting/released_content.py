"""What is in a release, in words: of centres, of a synthetic table, of published classes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.syntactic_promise import named

_TABLES = {
    "centres": "one line a centre, in the units of the data",
    "synopsis": "one line a box, with its noisy number of rows",
    "sizes": "one line a centre: its noisy number of rows",
    "synthetic": "one line a synthetic row, in the columns of the source",
    "codes": "the same rows as cell codes",
    "marginals": "one line a level: its share of the synthetic rows",
    "cliques": "one line a node of the model graph",
    "measured": "one line a table that was measured, with its noise",
    "cells": "one line a noisy count",
    "groups": "one line a level, with the group it was counted in",
    "bits": "one line a bit that was kept",
    "bit_levels": "one line a level that a bit answers yes to",
    "classes": "one line a published class, with its noisy number of rows",
    "counts": "one line a published class and level of the label",
    "total": "one line a level: all published classes together",
    "claims": "what is promised of the classes, and what is not",
    "threshold": "the numbers behind the claims",
}

_NO_ROWS = {
    "synthetic": "A synthetic row is no person's row: each is drawn from the noisy tables above, "
    "and what none of them holds together was filled in by the model.",
    "centres": "A centre is no person's place: it was made from noisy counts and sums.",
    "classes": "A class that is not listed may have many rows, and one that is listed few: sizes "
    "are noisy.",
}


def content_table(bundle: Bundle) -> list[tuple[str, str]]:
    """Table with what is in it, and how many lines: of everything that was released."""
    return [
        (f"{name}: {words}" if (words := _TABLES.get(name)) else name, f"{_lines(table):,}")
        for name, table in bundle.tables.items()
    ]


def content_points(bundle: Bundle) -> list[str]:
    """Which columns, and the cliques of a table or the bits of classes."""
    tables = bundle.tables
    said = []
    if "centres" in tables:
        said += [f"Centres in {named(list(tables['centres']))}."]
    if "synthetic" in tables:
        said += [f"Columns of the synthetic rows: {named(list(tables['synthetic']))}."]
    if "cliques" in tables:
        said += [f"Model graph: {_cliques(tables['cliques'])}."]
    if "bits" in tables:
        said += [f"Bits of the classes: {named(tables['bits']['bit'].tolist()) or 'none'}."]
    return said


def content_limits(bundle: Bundle) -> list[str]:
    """What the tables are not."""
    return [words for name, words in _NO_ROWS.items() if name in bundle.tables]


def _cliques(cliques: Mapping[str, np.ndarray]) -> str:
    texts = [
        f"{names} ({cells:,} cells)"
        for names, cells in zip(
            cliques["attributes"].tolist(), cliques["cells"].tolist(), strict=True
        )
    ]
    return named(texts) or "no clique"


def _lines(table: Mapping[str, np.ndarray]) -> int:
    return max((len(values) for values in table.values()), default=0)

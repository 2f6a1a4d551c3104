"""What a report promises, to whom, and what it does not: the same words on every page.

Sentences of the promise that pages and cards have in common.

What is in a release, in words: of centres, of a synthetic table, of published classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dp_pipeline.release.bundle import Bundle
from dp_pipeline.reporting.html import Markup, element, joined
from dp_pipeline.reporting.k_anonymous_promise import named
from dp_pipeline.reporting.summary import ReleaseSummary
from dp_pipeline.spec.amounts import delta_text, epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import RowsOfPerson

PURPOSE: Mapping[str, str] = {
    "benchmark": "Benchmark: the rows are public, so exact numbers about them are shown here.",
    "release": "Release: the rows are sensitive. Every number here that depends on them was "
    "drawn with noise and paid for with ε; exact ones are not shown.",
}

NOT_PROMISED = (
    "Run time is not covered: how long a run took may depend on the rows.",
    "Derived copies are not detected: the same persons under another name, in another "
    "file, have another account.",
    "Choosing ε, a model or its parameters by looking at exact numbers of sensitive rows "
    "is not covered.",
    "A draw from seeded noise or from a source not fit for release is marked NOT FOR RELEASE: "
    "it shows how a method works and protects nobody.",
)
"""Of no release, whatever its ε."""


def unit_words(spec: DatasetSpec) -> str:
    """Whom the promise is about."""
    if isinstance(spec.protection, RowsOfPerson):
        return (
            f"one person: all rows with the same {spec.protection.column}, "
            f"of which at most {spec.protection.at_most} are used"
        )
    return "one row"


def difference_words(spec: DatasetSpec) -> str:
    """What the data that is compared with differs by."""
    unit = "person" if isinstance(spec.protection, RowsOfPerson) else "row"
    if spec.relation == "replace_one":
        return f"any one {unit} is replaced by another (replace one)"
    return f"any one {unit} is missing or added (add/remove)"


def at_delta(epsilon: str, spec: DatasetSpec, rho: Fraction) -> str:
    """An ε with the δ that it holds at, and the ρ that means both."""
    return f"{epsilon} at δ = {delta_text(spec.delta or Fraction(0))} (ρ = {epsilon_text(rho)})"


def protected_box(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> Markup:
    """Who is protected, against what comparison, and at what price so far."""
    ceiling = "none declared" if spec.ceiling is None else f"ε = {epsilon_text(spec.ceiling)}"
    if spec.ceiling is not None and spec.delta is not None:
        ceiling = at_delta(ceiling, spec, spec.currency.amount_of(spec.ceiling))
    facts = {
        "Unit": unit_words(spec),
        "Compared with": f"data where {difference_words(spec)}",
        "Purpose": PURPOSE[spec.purpose],
        "On this page": _together(spec, releases),
        "Ceiling": f"{ceiling} for everything ever drawn from population {spec.lineage}"
        if spec.ceiling is not None
        else f"{ceiling} for population {spec.lineage}",
    }
    rows = [
        part for name, text in facts.items() for part in (element("dt", name), element("dd", text))
    ]
    return element(
        "section",
        element("h2", "Who is protected", id="protected"),
        element("dl", *rows),
        class_="protected",
        aria_labelledby="protected",
    )


def _together(spec: DatasetSpec, releases: Sequence[ReleaseSummary]) -> str:
    if not releases:
        return "nothing released, nothing spent"
    fit = [release for release in releases if release.fit_for_release]
    total = sum((release.charged for release in fit), Fraction(0))
    cost = f"ε = {epsilon_text(spec.currency.epsilon_of(total))}"
    if spec.delta is not None:
        cost = at_delta(cost, spec, total)
    text = f"{len(fit)} fit for release; together they cost {cost} at most"
    unfit = len(releases) - len(fit)
    return f"{text}. Not counted: {unfit} not for release" if unfit else text


def promise(spec: DatasetSpec) -> Markup:
    """What this does and does not promise."""
    what = (
        "Each release that is fit for release is ε-differentially private for the unit "
        f"declared above ({spec.protection}), compared with data where {difference_words(spec)}. "
        "Between the two, no possible result is more than e",
        element("sup", "ε"),
        " times as likely. The ε is the one in the column “ε spent”; it holds against any other "
        "knowledge and any computation, and releases add up.",
        _concentrated(spec),
    )
    not_promised = [element("li", words) for words in NOT_PROMISED]
    if not spec.is_release:
        exact = "Exact numbers on this page are not private; they may be shown of public rows only."
        not_promised.insert(0, element("li", exact))
    return element(
        "section",
        element("h2", "What this does and does not promise"),
        element("p", joined(what)),
        element("ul", *not_promised),
        class_="promise",
    )


def _concentrated(spec: DatasetSpec) -> str:
    """What is said besides where the population pays in ρ; nothing elsewhere."""
    if spec.delta is None:
        return ""
    return (
        " This population pays in ρ of zero-concentrated differential privacy: the ρ add up, not "
        "the ε, and what they add up to is (ε, δ)-differentially private with the ε shown above "
        f"and δ = {delta_text(spec.delta)}. Where a δ stands beside an ε, a result may be more "
        "likely than that by δ at most."
    )


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

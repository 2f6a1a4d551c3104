"""Released values written by hand, and what the tests of this folder ask of Markdown."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import Coordinate
from dp_pipeline.ledger import Balance
from dp_pipeline.metrics.disclosure import disclosure_report
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.releases import ReportedKAnonymousRelease, ReportedPrivateRelease
from dp_pipeline.results.accountant import LAPLACE, Spend
from dp_pipeline.results.bundle import Bundle

HALF, ONE, TEN = Fraction(1, 2), Fraction(1), Fraction(10)
SQUARE = (Coordinate(0.0, 4.0), Coordinate(0.0, 4.0))
WRITTEN = datetime(2025, 6, 2, 12, 30, tzinfo=UTC)


def exact(model: str, epsilon: Fraction, value: float, metric: str = "nicv") -> QualityRow:
    return QualityRow(model, epsilon, metric, value, None, "square metres")


def bought(model: str, epsilon: Fraction, value: float, scale: float) -> QualityRow:
    return QualityRow(model, epsilon, "nicv", value, scale, "square metres")


def over_k(values: Mapping[str, Mapping[int, float]], metric: str) -> list[QualityRow]:
    """Numbers of k-anonymous releases, by method and K."""
    return [
        QualityRow(method, Fraction(k), metric, value, None, "share")
        for method, numbers in values.items()
        for k, value in numbers.items()
    ]


def spec(**changes: Any) -> DatasetSpec:
    """A data set of two coordinates; a benchmark unless changed."""
    fields: dict[str, Any] = {
        "name": "squares",
        "title": "Squares",
        "description": "Points in a square.",
        "population": "square_people",
        "domain": Domain(tuple(Attribute(name, name, "clip", SQUARE[0]) for name in "xy")),
        "partitions": (HALF, ONE),
        "models": {"eug_kmeans": {}},
    }
    return DatasetSpec.of_domain(**{**fields, **changes})


FIGURES = ("auc", "auc_paper", "kept", "seconds")
"""Metrics of k-anonymous releases."""

FACTS = {
    "dataset": "squares", "kind": "dp", "model": "eug_kmeans", "epsilon": "0.5",
    "evaluation": "none", "snapshot": "2025-06-02", "replicate": "0", "measuring": '{"cells": "4"}',
    "postprocessing": '{"k": "2"}', "noise": "opendp", "releasable": "yes",
    "code": "dp_pipeline 0.1.0 abc",
}  # fmt: skip
SEEDED = {"noise": "seeded:7", "releasable": "no"}
NOT_DP = {"kind": "not-dp", "composed": "none", "reason": "it reads records", "releasable": "no"}
"""Facts of a release with noise that can be drawn again, and of one without any ε."""


def spend(scale: int = 2, epsilon: Fraction = HALF) -> Spend:
    return Spend("grid of 4 cells an axis over x, y", LAPLACE, epsilon, 1, Fraction(scale))


def bundle(**changes: Any) -> Bundle:
    """A release of two centres at ε = 0.5.

    changes   fields of the bundle; of ``facts`` only those that are others
    """
    fields: dict[str, Any] = {
        "key": "ab" * 32,
        "spends": (spend(),),
        "quality": {},
        "tables": {"centres": {"x": np.array([1.0, 2.0]), "y": np.array([0.5, 3.0])}},
        "transcript": "cd" * 32,
    }
    facts = {**FACTS, **changes.pop("facts", {})}
    return Bundle(**{**fields, "facts": facts, **changes})


def release(**changes: Any) -> ReportedPrivateRelease:
    """The release of ``bundle``, as a card or a report on the squares has it.

    changes   fields of the bundle and of what is reported; facts by their names
    """
    parts = ("spends", "tables", "quality")
    stored = {name: changes.pop(name) for name in parts if name in changes}
    fields: dict[str, Any] = {
        "spec": spec(),
        "summary": "counts of equal cells",
        "state": "charged",
        "balance": Balance(ceiling=None, spent=HALF, not_dp=1),
        "exact": (),
        "non_dp_releases": (),
    }
    fields |= {name: changes.pop(name) for name in fields if name in changes}
    return ReportedPrivateRelease(bundle=bundle(facts=changes, **stored), **fields)


def measures(*classes: str, k: int = 2) -> dict[str, float]:
    """What is measured of classes, each a text with one letter a row: its label."""
    letters = sorted({label for labels in classes for label in labels})
    codes = [[position] for position, labels in enumerate(classes) for _ in labels]
    target = [letters.index(label) for labels in classes for label in labels]
    table = np.array(codes, dtype=np.int64).reshape(-1, 1)
    labels = np.array(target, dtype=np.int64)
    return disclosure_report(table, labels, labels=max(1, len(letters)), k=k).facts()


def k_anonymous(**changes: Any) -> ReportedKAnonymousRelease:
    """A 2-anonymous release of five public rows, two of them in a class with one label.

    changes   ``spec``, ``summary``, ``non_dp_releases``, ``figures``; ``columns`` (name, source,
              rule), ``measures``, ``left_out`` (label, rows, share) or ``suppressed``; facts
    """
    parts = ("spec", "summary", "non_dp_releases")
    own = {name: changes.pop(name) for name in parts if name in changes}
    method, k = changes.get("model", "kjig"), int(changes.get("k", 2))
    own["exact"] = [
        row
        for metric, value in changes.pop("figures", {}).items()
        for row in over_k({method: {k: value}}, metric)
    ]
    columns = changes.pop("columns", [("x>=2", "x", "1 where x is in [2, 4] or above")])
    result = changes.pop("measures", measures("aa", "aab"))
    suppressed = _table(("rows",), [(changes.pop("suppressed", 0),)])
    if "left_out" in changes:
        suppressed = _table(("label", "rows", "share"), changes.pop("left_out"))
    facts = {
        "dataset": "squares", "model": "kjig", "kind": "not-dp", "promise": "k-anonymity",
        "releasable": "no", "k": "2", "diversity": "1", "suppress": "0", "label": "colour",
        "attributes": "x y", "allow_not_dp": "no", "snapshot": "2025-06-02", "parameters": "{}",
        "seed": "0", "code": "dp_pipeline 0.1.0 abc",
    }  # fmt: skip
    tables = {
        "columns": _table(("name", "source", "rule"), columns),
        "measures": _table(("name", "value"), result.items()),
        "suppressed": suppressed,
    }
    own_facts = {name: str(value) for name, value in changes.items()}
    output = Bundle("ab" * 32, {**facts, **own_facts}, (), {}, tables, "")
    chosen = {"spec": spec(), "summary": "what bits tell together", **own}
    return ReportedKAnonymousRelease(bundle=output, **chosen)


def _table(names: tuple[str, ...], lines: Iterable[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    columns = list(zip(*lines, strict=True)) or [()] * len(names)
    return {name: np.array(values) for name, values in zip(names, columns, strict=True)}


def synopsis(*weights: float) -> dict[str, np.ndarray]:
    """Four boxes of a 2 × 2 grid over the square: (0,0), (0,1), (1,0), (1,1)."""
    low_x, low_y = np.array([0.0, 0.0, 2.0, 2.0]), np.array([0.0, 2.0, 0.0, 2.0])
    sides = {"x_lower": low_x, "x_upper": low_x + 2, "y_lower": low_y, "y_upper": low_y + 2}
    return {**sides, "weight": np.array(weights)}


def marginals(**counts: list[int]) -> dict[str, np.ndarray]:
    """A table of one-way marginals; levels are called 0, 1, …"""
    shares = [count / max(1, sum(cells)) for cells in counts.values() for count in cells]
    return {
        "attribute": np.array([name for name, cells in counts.items() for _ in cells]),
        "level": np.array([str(i) for cells in counts.values() for i in range(len(cells))]),
        "probability": np.array(shares),
    }


def cliques(*lines: tuple[str, int, str]) -> dict[str, np.ndarray]:
    """A table of cliques: attributes, place of the parent or −1, separator; 4 cells each."""
    texts = [(attributes, separator) for attributes, _, separator in lines]
    return {
        "attributes": np.array([attributes for attributes, _ in texts], dtype=np.str_),
        "cells": np.full(len(lines), 4),
        "parent": np.array([parent for _, parent, _ in lines], dtype=np.int64),
        "separator": np.array([separator for _, separator in texts], dtype=np.str_),
    }


MARKUP = ("# x", "- x", "1. x", "---", "===", "> x", "| x |", "![a](b)", "<b>", "&lt;", "    x")
"""Texts that would be more than text at the beginning of a line, or anywhere."""


def require_no_markup(lines: list[str], plain: list[str]) -> None:
    """Fail if lines of Markdown are more than the plain ones, or have a tag or a link."""
    assert [_begin(line) for line in lines] == [_begin(line) for line in plain]
    bars = r"(?<!\\)(?:\\\\)*\|"
    assert [re.findall(bars, line) for line in lines] == [re.findall(bars, line) for line in plain]
    assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`&]", "\n".join(lines))


def _begin(line: str) -> str:
    """How a line of Markdown begins, where it is a heading, a point, a line of a table …"""
    start = re.match(r"#+ |([-+*] )+|\d+[.)] |\||>|=+$|-+$| {4}", line)
    return start.group() if start else "a paragraph" if line else "nothing"

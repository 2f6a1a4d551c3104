"""Released values written by hand, shared by the tests of this folder."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.metrics.disclosure import disclosure_report
from dp_pipeline.release.accountant import LAPLACE, Spend
from dp_pipeline.reporting.k_anonymous_promise import AnonymousRelease, KeptColumn
from dp_pipeline.reporting.metrics import QualityRow
from dp_pipeline.reporting.report import ReleaseSummary
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Attribute, Domain, OneRow
from dp_pipeline.spec.encoding import Coordinate
from dp_pipeline.spec.source import Source

HALF, ONE, TEN = Fraction(1, 2), Fraction(1), Fraction(10)
SQUARE = (Coordinate(0.0, 4.0), Coordinate(0.0, 4.0))
WRITTEN = datetime(2025, 6, 2, 12, 30, tzinfo=UTC)


def exact(model: str, epsilon: Fraction, value: float, metric: str = "nicv") -> QualityRow:
    """A number on benchmark data."""
    return QualityRow(model, epsilon, metric, value, None, "square metres")


def bought(model: str, epsilon: Fraction, value: float, scale: float) -> QualityRow:
    """A number that was paid for."""
    return QualityRow(model, epsilon, "nicv", value, scale, "square metres")


def spec(**changes: Any) -> DatasetSpec:
    """A data set of two coordinates; a benchmark unless changed."""
    fields: dict[str, Any] = {
        "name": "squares",
        "title": "Squares",
        "description": "Points in a square.",
        "lineage": "square_people",
        "purpose": "benchmark",
        "protection": OneRow(),
        "relation": "add_remove",
        "ceiling": None,
        "source": Source("generator", "squares"),
        "domain": Domain(
            tuple(Attribute(name, name, "clip", Coordinate(0.0, 4.0)) for name in ("x", "y"))
        ),
        "one_hot": False,
        "nominal_rows": None,
        "partitions": (HALF, ONE),
        "models": {"eug_kmeans": {}},
        "publish": None,
        "evaluation": None,
        "distinct_population": None,
    }
    return DatasetSpec(**{**fields, **changes})


def summary(**changes: Any) -> ReleaseSummary:
    """A release of one grid at ε = 0.5."""
    spend = Spend("grid of 4 cells an axis over x, y", LAPLACE, HALF, 1, Fraction(2))
    fields: dict[str, Any] = {
        "model": "eug_kmeans",
        "epsilon": "0.5",
        "spent": "0.5",
        "evaluation": "none",
        "state": "charged",
        "snapshot": "2025-06-02",
        "noise": "opendp",
        "fit_for_release": True,
        "spends": (spend,),
    }
    chosen = {**fields, **changes}
    costs = tuple(spend.epsilon for spend in chosen["spends"])
    return ReleaseSummary(**{"costs": costs, **chosen})


def measures(*classes: str, k: int = 2) -> dict[str, float]:
    """What is measured of classes, each a text with one letter a row: its label."""
    letters = sorted({label for labels in classes for label in labels})
    codes = [[at] for at, labels in enumerate(classes) for _ in labels]
    target = [letters.index(label) for labels in classes for label in labels]
    table = np.array(codes, dtype=np.int64).reshape(-1, 1)
    labels = np.array(target, dtype=np.int64)
    return disclosure_report(table, labels, labels=max(1, len(letters)), k=k).facts()


def anonymous(**changes: Any) -> AnonymousRelease:
    """A 2-anonymous release of five public rows, two of them in a class with one label."""
    fields: dict[str, Any] = {
        "title": "Squares",
        "dataset": "squares",
        "lineage": "square_people",
        "purpose": "benchmark",
        "method": "kjig",
        "summary": "what bits tell together",
        "k": 2,
        "diversity": 1,
        "suppress": Fraction(0),
        "label": "colour",
        "columns": (KeptColumn("x>=2", "x", "1 where x is in [2, 4] or above"),),
        "outside": (),
        "measures": measures("aa", "aab"),
        "suppressed": 0,
        "allowed": False,
    }
    return AnonymousRelease(**{**fields, **changes})


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

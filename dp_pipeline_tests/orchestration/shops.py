"""SHOPS: what members bought, whose zones and fares are left to be discovered."""

from typing import Any

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline_tests.orchestration.projects import Declaration, Project

SHOPS: Declaration = {
    "description": "What members bought: sensitive.",
    "population": "members",
    "purpose": "release",
    "protection": {"unit": "rows_of_person", "column": "member", "at_most": "2"},
    "ceiling": {"total": "9"},
    "source": {"kind": "csv", "path": "shops.csv"},
    "attributes": {
        "zone": {"levels": "discover", "at_most": "20"},
        "fare": {"bounds": "discover", "unit": "1", "bins": {"quantiles": "4"}},
        "age": {"bounds": ["0", "80"], "bins": "4"},
    },
    "discover": {"epsilon": "2", "delta": "0.000001"},
    "partitions": ["0.5", "1"],
    "models": {"independent": {}},
    "publish": {"model": "independent", "epsilon": "0.5"},
}
SECRET = "hapaxlegomenon"
"""A zone of one person."""


def rows() -> list[str]:
    """600 members with two purchases each, in three zones, and one secret."""
    lines = ["member,zone,fare,age"]
    lines += [f"m{n // 2},{'abc'[n % 3]},{1 + n % 30},{n % 80}" for n in range(1200)]
    return [*lines, f"m9999,{SECRET},7,40"]


def shops(project: Project, **changes: Any) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("shops.csv", rows())
    return project.declare("shops", SHOPS, **changes)

"""PATIENTS: twelve sensitive rows whose k-anonymous tables can be counted on fingers."""

from collections.abc import Iterable
from typing import Any

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.releases.k_anonymous_release import KAnonymousRelease
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline_tests.orchestration.projects import Declaration, Project

PATIENTS: Declaration = {
    "description": "Patients of one ward: sensitive.",
    "population": "ward",
    "purpose": "release",
    "protection": {"unit": "one_row"},
    "ceiling": {"total": "3"},
    "source": {"kind": "csv", "path": "patients.csv"},
    "attributes": {
        "age": {"bounds": ["0", "80"], "bins": "4"},
        "sex": {"levels": ["f", "m"]},
        "ill": {"levels": ["no", "yes"]},
    },
    "label": "ill",
    "partitions": ["0.5", "1"],
    "models": {"independent": {}},
    "k_anonymity": {"methods": {"kjig": {}, "mutual_information": {}}, "partitions": ["2", "5"]},
    "allow_not_dp": "true",
}
"""A release that its file allows by name."""

HEAD = "age,sex,ill"
ROWS = (
    *("10,f,no", "12,f,no", "15,m,no", "25,f,no", "26,m,yes", "30,m,no"),
    *("45,f,yes", "47,f,no", "50,m,yes", "61,f,yes", "66,m,yes", "79,m,yes"),
)

LONELY = ("10,f,no", "10,f,yes", "10,m,no", "10,m,yes", "50,f,no", "50,f,yes") * 5
"""Thirty rows to which one may come that is alone with its age and sex: an old man."""

WARD: Declaration = {**PATIENTS, "purpose": "benchmark", "ceiling": None, "allow_not_dp": None}
"""The same rows, were they public."""


def declare(
    project: Project, base: Declaration = PATIENTS, rows: Iterable[str] = ROWS, **changes: Any
) -> DatasetSpec:
    project.datasets.mkdir(parents=True, exist_ok=True)
    project.write_rows("patients.csv", [HEAD, *rows])
    return project.declare("patients", base, **changes)


def release_of(project: Project, spec: DatasetSpec, method="kjig", k=2) -> KAnonymousRelease:
    return KAnonymousRelease(spec, method, k, project.home)


def anonymized(project: Project, spec: DatasetSpec, **what: Any) -> PublishedBundle:
    return publish(release_of(project, spec, **what))


def ready(project: Project, *words: Any, snapshot: Any = None, **changes: Any) -> DatasetSpec:
    spec = declare(project, *words, **changes)
    project.prepare(spec, snapshot)
    return spec

"""Every kind of release, on the smallest data set that has it: each law is a test over KINDS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_pipeline.config.amounts import epsilon_text, rho_of
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.parser import load_spec
from dp_pipeline.ledger import Entry
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.account import declared_account, open_population, require_snapshot
from dp_pipeline.releases.domain_release import DomainRelease, publish_domain
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.releases.release import Release
from dp_pipeline_tests.orchestration import faults, patients
from dp_pipeline_tests.orchestration.projects import HOMES, RIDES, Declaration, Project
from dp_pipeline_tests.orchestration.shops import SHOPS, shops
from dp_pipeline_tests.orchestration.streams import one_off, stream


def _rides(project: Project) -> None:
    project.prepare(project.declare("rides", RIDES))


def _homes(project: Project, **changes: Any) -> None:
    levels: Declaration = {"models": {"independent": {}}, "partitions": ["0.2", "0.5"], **changes}
    project.prepare(project.declare("homes", HOMES, **levels))


def _refinable(project: Project) -> None:
    _homes(project)
    project.publish(_spec(project), model="independent", epsilon="0.2")


def _weeks(*names: str) -> Callable[[Project], None]:
    def prepare(project: Project) -> None:
        spec = stream(project, ceiling={"each_window": "9"})
        for name in names:
            project.prepare(spec.at_window(name))

    return prepare


def _week_after_one_off(project: Project) -> None:
    open_population(one_off(project), project.home)
    project.spend("0.1")
    spec = stream(project, ceiling={"each_window": "9"})
    project.ledger.add_windows(declared_account(spec), reason="weekly", by="ana")
    project.prepare(spec.at_window("2026-W01"))


def _spec(project: Project) -> DatasetSpec:
    (file,) = project.datasets.glob("*.yaml")
    return load_spec(file)


def _refinement(project: Project, spec: DatasetSpec) -> Release:
    return replace(project.release(spec, model="independent"), refine=Fraction("0.2"))


def _of_weeks(window: str, span: int) -> Callable[[Project, DatasetSpec], Release]:
    def release(project: Project, spec: DatasetSpec) -> Release:
        return replace(project.release(spec.at_window(window), model="independent"), span=span)

    return release


@dataclass(frozen=True)
class Kind:
    """One kind of release.

    prepare   declares its data set, and prepares the rows
    release   one release of it
    cost      what it charges to its population, in its currency; 0 for a k-anonymous one
    """

    prepare: Callable[[Project], Any]
    release: Callable[[Project, DatasetSpec], Release]
    cost: str


BILLIONTH = Fraction(1, 10**9)
KINDS: Mapping[str, Kind] = {
    "clustering": Kind(_rides, lambda project, spec: project.release(spec), "0.55"),
    "table": Kind(_homes, lambda project, spec: project.release(spec, model="independent"), "0.5"),
    "in rho": Kind(
        lambda project: _homes(project, models={"one_shot": {}}, delta="0.000000001"),
        lambda project, spec: project.release(spec, model="one_shot"),
        epsilon_text(rho_of(Fraction("0.5"), BILLIONTH)),
    ),
    "k-anonymous": Kind(
        lambda project: project.prepare(patients.declare(project)), patients.release_of, "0"
    ),
    "domain": Kind(
        lambda project: project.prepare(shops(project)),
        lambda project, spec: DomainRelease(spec, project.home, "opendp"),
        SHOPS["discover"]["epsilon"],
    ),
    "window": Kind(_week_after_one_off, _of_weeks("2026-W01", 1), "0.55"),
    "two windows": Kind(_weeks("2026-W01", "2026-W02"), _of_weeks("2026-W02", 2), "1.1"),
    "refinement": Kind(_refinable, _refinement, "0.3"),
}


@dataclass(frozen=True)
class Case:
    """One kind of release in a project of its own, prepared and nothing of it released."""

    name: str
    project: Project

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @property
    def is_dp(self) -> bool:
        return self.name != "k-anonymous"

    @property
    def spec(self) -> DatasetSpec:
        return _spec(self.project)

    @property
    def release(self) -> Release:
        return self.kind.release(self.project, self.spec)

    @property
    def key(self) -> str:
        release = self.release
        snapshot = require_snapshot(release.spec, self.project.home, release.windows)
        return release.key(snapshot).digest

    @property
    def snapshots(self) -> list[Snapshot]:
        secret = self.project.ledger.key(self.spec.population)
        manifests = self.project.home.raw.rglob("manifest.json")
        return [Snapshot(manifest.parent, secret) for manifest in manifests]

    @property
    def spent(self) -> Fraction:
        return self.project.spent(self.spec)

    @property
    def cost(self) -> Fraction:
        return Fraction(self.kind.cost)

    def publish(self, **options: Any) -> PublishedBundle:
        release = self.release
        if isinstance(release, DomainRelease):
            return publish_domain(release, **options)
        return publish(release, **options)

    @property
    def charges(self) -> list[Entry]:
        return [entry for entry in self.project.ledger.entries() if entry.key]

    def events(self, key: str) -> list[str]:
        return [entry.event for entry in self.project.ledger.history(key)]

    def forget_rows(self) -> None:
        """No stage is left of any snapshot; manifests and pointers are."""
        for path in self.project.home.raw.rglob("*.parquet"):
            path.unlink()


def publish_and_die(folder: Path, name: str, point: str) -> None:
    """Publish one release up to a point, where this process ends; to be started in a child."""
    faults.POINTS[point](pytest.MonkeyPatch(), faults.die)
    Case(name, Project(folder)).publish()

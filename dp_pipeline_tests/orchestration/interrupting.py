"""Releases that stop after some answers, in this process: no handler of ours runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.snapshot import mark_validated
from dp_pipeline.releases.account import open_population
from dp_pipeline.releases.publish import PublishedBundle, publish
from dp_pipeline.results.transcript import Transcript
from dp_pipeline_tests.orchestration.projects import Project

DAY = date(2026, 11, 22)


class Crash(BaseException):
    """In place of SIGKILL: nothing of ours catches it."""


@dataclass
class StoppingNoise:
    """Seeded noise that calls itself fit, and ends the process after some answers."""

    seed: int
    answers: int = 1000
    name: str = "opendp"
    is_releasable: bool = True

    def __post_init__(self) -> None:
        self.source = SeededNoise(self.seed)

    def discrete_laplace(self, counts: IntArray, scale: Fraction) -> IntArray:
        if self.answers == 0:
            raise Crash
        self.answers -= 1
        return self.source.discrete_laplace(counts, scale)

    def noisy_max(self, scores: IntArray, scale: Fraction) -> int:
        raise NotImplementedError


def prepared(project: Project, spec: DatasetSpec) -> None:
    """Rows read and prepared, without Dagster; validated as if they had been."""
    key = open_population(spec, project.home).key(spec.population)
    snapshot = ingest(spec, project.home.raw, key=key, snapshot_id=None, today=DAY)
    mark_validated(spec, snapshot, structural=True, refused=False)
    prepare(spec, snapshot)


def publish_with(project: Project, spec: DatasetSpec, noise: StoppingNoise) -> PublishedBundle:
    release = project.release(spec)
    vars(release)["noise"] = noise
    return publish(release)


def interrupted(project: Project, spec: DatasetSpec, *, answers: int = 3) -> Path:
    """The transcript of a release that stopped after some answers."""
    with pytest.raises(Crash):
        publish_with(project, spec, StoppingNoise(1, answers=answers))
    (transcript,) = project.home.released.rglob("transcript.jsonl")
    assert len(Transcript(transcript)) == 1 + answers
    return transcript

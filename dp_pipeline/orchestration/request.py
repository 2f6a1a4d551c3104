"""RunRequest and AnonymizeRequest: what one command asks of one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_pipeline.ledger.home import Home
from dp_pipeline.orchestration.release import Release
from dp_pipeline.orchestration.syntactic_release import SyntacticRelease
from dp_pipeline.schema.spec import DatasetSpec


@dataclass(frozen=True)
class RunRequest:
    """What to run, where.

    snapshot   a name for a new snapshot, or empty for the current one
    """

    spec: DatasetSpec
    models: Sequence[str]
    epsilons: Sequence[Fraction]
    home: Home
    noise_name: str
    fresh: bool = False
    snapshot: str = ""

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every model at every ε."""
        return tuple(
            Release(self.spec, model, epsilon, self.home, self.noise_name)
            for epsilon in self.epsilons
            for model in self.models
        )

    @property
    def partition_count(self) -> int:
        """Partitions that it asks for."""
        return len(self.epsilons)


@dataclass(frozen=True)
class AnonymizeRequest:
    """Which k-anonymous releases to make, where.

    ks         ascending
    snapshot   a name for a new snapshot, or empty for the current one
    """

    spec: DatasetSpec
    methods: Sequence[str]
    ks: Sequence[int]
    home: Home
    snapshot: str = ""

    @property
    def releases(self) -> tuple[SyntacticRelease, ...]:
        """Every method at every K."""
        return tuple(
            SyntacticRelease(self.spec, method, k, self.home)
            for k in self.ks
            for method in self.methods
        )

    @property
    def partition_count(self) -> int:
        """Partitions that it asks for."""
        return len(self.ks)

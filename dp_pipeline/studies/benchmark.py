"""Benchmark: the prepared rows of one public data set, kept in the folder of a study."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import cache, partial
from pathlib import Path

from dp_pipeline.ledger import Ledger
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.expectations import refusal, validate
from dp_pipeline.raw.ingest import ingest
from dp_pipeline.raw.prepare import prepare
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.schema.discovery import find_spec
from dp_pipeline.schema.errors import DeclarationError, NotPrepared
from dp_pipeline.schema.spec import DatasetSpec

SNAPSHOT = "study"
_KEY = bytes(32)
"""Public rows need no secret, and which rows of a person are kept must not differ by study."""


@dataclass(frozen=True)
class Benchmark:
    """One public data set, prepared."""

    spec: DatasetSpec
    snapshot: Snapshot

    @classmethod
    def of(cls, spec: DatasetSpec, folder: Path, repetition: int = 0) -> Benchmark:
        """The data set as it lies in the study's ``folder``, prepared or not.

        repetition   where rows are sampled: which sample, drawn by the declared seed + repetition

        DeclarationError for a data set to be released: a study shows exact numbers and has no
        ceiling.
        """
        if spec.is_release:
            raise DeclarationError(
                f"{spec.name}: expected purpose: benchmark for a study, got purpose: release"
            )
        name, sample = SNAPSHOT, spec.source.sample
        if sample is not None:
            sample = replace(sample, seed=sample.seed + repetition)
            spec = replace(spec, source=replace(spec.source, sample=sample))
            name = f"{SNAPSHOT}-{sample.seed}"
        return cls(spec, Snapshot(folder / ".data" / spec.name / name, _KEY))

    def prepare(self, ledger: Ledger | None = None) -> None:
        """Ingest, validate, prepare; what was prepared before stays as it is.

        ledger   of the project: what it protects is not studied; None where there is none

        DeclarationError where a file that was downloaded is protected, SourceError when the source
        cannot be read, NotPrepared when its rows are not as declared.
        """
        spec, store = self.spec, self.snapshot.folder.parent.parent
        require = None if ledger is None else partial(ledger.require_public, spec.lineage)
        name = self.snapshot.id
        ingest(spec, store, key=_KEY, snapshot_id=name, today=date.min, claim=require)
        if self._is_prepared:
            return
        refused = refusal(spec, validate(spec, self.snapshot))
        if refused is not None:
            raise NotPrepared(refused)
        prepare(spec, self.snapshot)

    @property
    def _is_prepared(self) -> bool:
        try:
            require_prepared(self.spec, self.snapshot)
        except NotPrepared:
            return False
        return True

    def counter(self) -> MemoryCounter:
        """A new engine over the rows: nothing that an earlier fit computed is kept in it."""
        return MemoryCounter.open(self.spec, self.snapshot)


@cache
def opened(folder: Path, dataset: str, repetition: int = 0) -> Benchmark:
    """The benchmark in a study's folder, looked up once a process."""
    return Benchmark.of(find_spec(dataset), folder, repetition)

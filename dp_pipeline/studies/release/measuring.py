"""Measuring one cell: fit the system on a curator in memory, then compare with the rows."""

from __future__ import annotations

import hashlib
import json
import math
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_pipeline.raw.held_out import HeldOut
from dp_pipeline.raw.table_comparison import table_quality
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.schema.errors import BoundaryViolation, DeclarationError
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.benchmark import Benchmark, opened
from dp_pipeline.studies.fit import Fit
from dp_pipeline.studies.journal import Row
from dp_pipeline.studies.release.cell import BASELINES, NO_PRIVACY, Cell
from dp_pipeline.studies.release.systems import known_systems

FACTS = (
    *("dataset", "system", "epsilon", "use", "repetition"),
    *("declared", "claim", "epsilon_charged", "reason", "failure"),
)
"""What every row has; the rest are numbers."""

_MEGABYTE = 1e6


@dataclass(frozen=True)
class Measuring:
    """Measures cells over the benchmarks that were prepared in a study's folder.

    delta   of the systems that account in ρ
    """

    folder: Path
    delta: Fraction

    def __call__(self, cell: Cell) -> Row:
        """One row: the cell, what it claims and costs, and the numbers of its use.

        ``table``: ``seconds`` of the fit, and ``avd_k`` and ``dcr`` of
        ``raw.table_comparison.table_quality``; ``classifier``: those of ``raw.held_out.HeldOut``;
        ``memory``: ``peak_mb``, the most megabytes that Python and NumPy held for the fit.

        A system that refuses a data set at some ε gives a row with a ``failure`` and no
        numbers: hours of other cells are not lost for it.
        """
        benchmark = opened(self.folder, cell.dataset)
        row = {
            **asdict(cell),
            "declared": declared_digest(benchmark.spec),
            **dict.fromkeys(("claim", "epsilon_charged", "reason", "failure"), ""),
        }
        if cell.system in BASELINES:
            return {**row, **_finite(_baseline(_held_out(benchmark, cell), cell.system))}
        return {**row, **self._fitted(benchmark, cell)}

    def _fitted(self, benchmark: Benchmark, cell: Cell) -> Row:
        """What the row of a system has beside the cell."""
        spec, system = benchmark.spec, known_systems()[cell.system]
        epsilon, model = Fraction(cell.epsilon), system.build()
        held_out = _held_out(benchmark, cell) if cell.use == "classifier" else None
        counter = benchmark.counter() if held_out is None else held_out.counter()
        try:
            model.check(spec.domain)
            claim = system.claim(spec, epsilon, self.delta)

            def fit() -> Fit:
                return Fit.of(model, counter, spec, epsilon=epsilon, claim=claim, key=cell.key)

            done, peak = _traced(fit) if cell.use == "memory" else (fit(), 0)
        except (BoundaryViolation, DeclarationError) as error:
            return {"failure": str(error)}
        done.require_claimed(claim, cell.key)
        said = {"claim": claim.kind, "epsilon_charged": claim.composed, "reason": claim.reason}
        if cell.use == "memory":
            return {**said, "peak_mb": peak / _MEGABYTE}
        codes = _codes(done)
        if held_out is not None:
            return {**said, **_finite(held_out.misclassified(codes))}
        quality = table_quality(spec, benchmark.snapshot, codes, classify=False)
        return {**said, "seconds": done.seconds, **_finite(quality)}


def _held_out(benchmark: Benchmark, cell: Cell) -> HeldOut:
    return HeldOut(benchmark.spec, benchmark.snapshot, cell.split)


def _baseline(held_out: HeldOut, name: str) -> dict[str, float]:
    if name == NO_PRIVACY:
        return held_out.misclassified_without_privacy()
    return held_out.misclassified_by_majority()


def _traced(fit: Callable[[], Fit]) -> tuple[Fit, int]:
    """A fit, several times as slow, and the most bytes that were held at once for it."""
    tracemalloc.start()
    try:
        return fit(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _codes(fit: Fit) -> dict[str, Any]:
    assert isinstance(fit.released, SyntheticTable)
    return dict(zip(fit.released.attributes, fit.released.codes.T, strict=True))


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def declared_digest(spec: DatasetSpec) -> str:
    """12 hex digits of what the file of a data set says to a study; other cells than these are
    of another data set with the same name.
    """
    said = [spec.digest, spec.source.identity, [asdict(target) for target in spec.targets]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]

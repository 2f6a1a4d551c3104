"""HeldOut: a fifth of the prepared rows of a benchmark, which no model sees before it is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.metrics.classification import Method, held_out, misclassification, train
from dp_pipeline.raw.counters.memory import MemoryCounter
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.table_comparison import METHODS, Codes
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.spec import DatasetSpec


@dataclass(frozen=True)
class HeldOut:
    """Four fifths of the prepared rows to fit on, and a fifth to test on: the papers' protocol.

    seed   decides by chance which rows are tested on

    NotPrepared, when rows are read, unless the snapshot is prepared.
    """

    spec: DatasetSpec
    snapshot: Snapshot
    seed: int

    def counter(self) -> MemoryCounter:
        """A new engine over the rows to fit on."""
        fitted, domain = self._rows[0], self.spec.domain
        stored = read_stage(self.snapshot, "normalized")
        return MemoryCounter(
            domain,
            coordinates=_some(stored, domain.numeric, fitted),
            codes=self._fitted,
            rows=len(fitted),
        )

    def misclassified(self, released: Codes) -> dict[str, float]:
        """Share of the tested rows that classifiers learned from a released table get wrong.

        released   codes of every attribute with cells

        ``misclassified_svm/<attribute>`` and ``misclassified_logistic/<attribute>`` of every
        declared target, and their means as ``misclassified_svm`` and ``misclassified_logistic``;
        NaN where no row is tested on.
        """
        return self._wrong({method: (method, released) for method in METHODS})

    def misclassified_without_privacy(self) -> dict[str, float]:
        """The same, learned from the rows to fit on."""
        return self.misclassified(self._fitted)

    def misclassified_by_majority(self) -> dict[str, float]:
        """The same, where the only answer is that of most of the rows to fit on."""
        return self._wrong(dict.fromkeys(METHODS, ("majority", self._fitted)))

    def _wrong(self, learned: Mapping[str, tuple[Method, Codes]]) -> dict[str, float]:
        domain = self.spec.domain
        found: dict[str, float] = {}
        for name, (method, table) in learned.items():
            each = {}
            for target in self.spec.targets:
                seen, answers = target.asked_of(table, domain)
                classifier = train(method, seen, answers, {one: domain[one].size for one in seen})
                asked = target.asked_of(self._tested, domain)
                wrong = misclassification(classifier, *asked)
                each[f"misclassified_{name}/{target.attribute}"] = wrong
            found |= {**each, f"misclassified_{name}": float(np.mean(list(each.values())))}
        return found

    @cached_property
    def _codes(self) -> pa.Table:
        require_prepared(self.spec, self.snapshot)
        return read_stage(self.snapshot, "discretized")

    @cached_property
    def _rows(self) -> tuple[IntArray, IntArray]:
        return held_out(self._codes.num_rows, seed=self.seed)

    @cached_property
    def _fitted(self) -> dict[str, NDArray[Any]]:
        return _some(self._codes, self.spec.domain.discrete, self._rows[0])

    @cached_property
    def _tested(self) -> dict[str, NDArray[Any]]:
        return _some(self._codes, self.spec.domain.discrete, self._rows[1])


def _some(table: pa.Table, names: tuple[str, ...], rows: IntArray) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy()[rows] for name in names}

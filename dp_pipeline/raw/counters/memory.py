"""The engine for tables that fit in memory: one batch of all rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.raw.counters.batch import Batch, Recoding
from dp_pipeline.raw.counters.fold import FoldCounter, answered
from dp_pipeline.raw.ingest import read_with_fingerprint
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Domain


class MemoryCounter(FoldCounter):
    """Exact whole numbers about prepared rows held as arrays.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    rows          number of rows
    fingerprint   of the stored tables that the columns were read from, and of their reading;
                  empty where there are none

    Damaged when an array has another length or a value that preparation does not write.

    >>> from dp_pipeline.spec.domain import Attribute
    >>> from dp_pipeline.spec.encoding import Levels
    >>> domain = Domain((Attribute("sex", "sex", "drop", cells=Levels(("f", "m"))),))
    >>> MemoryCounter(domain, coordinates={}, codes={"sex": np.array([0, 1, 1])}, rows=3)
    MemoryCounter(1 attributes)
    """

    def __init__(
        self,
        domain: Domain,
        *,
        coordinates: Mapping[str, NDArray[Any]],
        codes: Mapping[str, NDArray[Any]],
        rows: int,
        fingerprint: str = "",
    ) -> None:
        self._batch = Batch(
            coordinates={name: coordinates[name] for name in domain.numeric},
            codes={name: codes[name] for name in domain.discrete},
            sizes={name: domain[name].size for name in domain.discrete},
            rows=rows,
        )
        super().__init__(domain, partial(answered, self._batch), fingerprint=fingerprint)

    @classmethod
    def empty(cls, domain: Domain) -> MemoryCounter:
        """The engine over no rows at all, for a dry run."""
        return cls(
            domain,
            coordinates={name: np.zeros(0, dtype=np.int32) for name in domain.numeric},
            codes={name: np.zeros(0, dtype=np.uint16) for name in domain.discrete},
            rows=0,
        )

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> MemoryCounter:
        """The engine over a prepared snapshot.

        NotPrepared unless the snapshot was validated and prepared under this
        declaration; Damaged when a stored table is not the one that was stored.
        """
        names = spec.domain.discrete
        stages = ("normalized", "discretized") if names else ("normalized",)
        with snapshot.alone():
            require_prepared(spec, snapshot)
            read = {stage: read_with_fingerprint(snapshot, stage) for stage in stages}
            reading = str(snapshot.manifest.get("read_at", ""))
        stored = read["normalized"][0]
        return cls(
            spec.domain,
            coordinates=_arrays(stored, spec.domain.numeric),
            codes=_arrays(read["discretized"][0], names) if names else {},
            rows=stored.num_rows,
            fingerprint=combined_fingerprint(reading, *(print_ for _, print_ in read.values())),
        )

    def _recoded(self, domain: Domain, recoding: Recoding) -> MemoryCounter:
        """The rows are recoded once, for all questions: a byte or more a row and attribute."""
        rows = self._batch.recoded(recoding)
        return MemoryCounter(domain, coordinates=rows.coordinates, codes=rows.codes, rows=rows.rows)


def combined_fingerprint(reading: str, *fingerprints: str) -> str:
    """One fingerprint of all tables. Rows that are read once more are other rows, whatever they
    hold: whether they have changed is a question about rows, which no outcome may answer.
    """
    return hashlib.sha256("\0".join((reading, *fingerprints)).encode()).hexdigest()


def _arrays(table: pa.Table, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy() for name in names}

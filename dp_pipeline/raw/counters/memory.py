"""The engine for tables that fit in memory: one batch of all rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Domain
from dp_pipeline.raw.counters.batch import Batch, BatchRecoding
from dp_pipeline.raw.counters.checked import CheckedRows
from dp_pipeline.raw.counters.fold import FoldCounter, answered
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.raw.workers import in_threads


class MemoryCounter(FoldCounter):
    """Exact whole numbers about prepared rows held as arrays.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    rows          number of rows
    fingerprint   of the stored tables that the columns were read from, and of their reading;
                  empty where there are none

    Damaged when an array has another length or a value that preparation does not write.

    >>> from dp_pipeline.config.domain import Attribute
    >>> from dp_pipeline.config.encoding import Levels
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
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> MemoryCounter:
        """The engine over a prepared snapshot.

        NotPrepared unless the snapshot was validated and prepared under this
        declaration; Damaged when a stored table is not the one that was stored.
        """
        return cls.of_stored(spec.domain, CheckedRows.open(spec, snapshot))

    @classmethod
    def of_stored(cls, domain: Domain, rows: CheckedRows) -> MemoryCounter:
        """The engine over rows on disk, which are read once and checked meanwhile."""
        return rows.beside(lambda: cls._read(domain, rows.stored, rows.fingerprint))

    @classmethod
    def _read(cls, domain: Domain, stored: StoredRows, fingerprint: str) -> MemoryCounter:
        """All columns, batch by batch, in threads."""
        coordinates = {name: np.empty(stored.number, np.int32) for name in domain.numeric}
        smallest = {name: np.min_scalar_type(size - 1) for name, size in stored.sizes}
        codes = {name: np.empty(stored.number, kind) for name, kind in smallest.items()}
        ends = list(accumulate(rows for _, _, rows in stored.groups))

        def fill(at: int) -> None:
            for batch in stored.batches(list(coordinates), list(codes), [at]):
                here = slice(ends[at] - batch.rows, ends[at])
                for name, column in batch.coordinates.items():
                    coordinates[name][here] = column
                for name, column in batch.codes.items():
                    codes[name][here] = column

        deque(in_threads(fill, range(len(ends))), maxlen=0)
        return cls(
            domain,
            coordinates=coordinates,
            codes=codes,
            rows=stored.number,
            fingerprint=fingerprint,
        )

    def _recoded(self, domain: Domain, recoding: BatchRecoding) -> MemoryCounter:
        """The rows are recoded once, for all questions: a byte or more a row and attribute."""
        rows = self._batch.recoded(recoding)
        return MemoryCounter(domain, coordinates=rows.coordinates, codes=rows.codes, rows=rows.rows)

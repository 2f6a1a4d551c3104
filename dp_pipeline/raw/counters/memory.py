"""The engine for tables that fit in memory, with one batch of all rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.domain import Domain
from dp_pipeline.raw.counters.batch import Batch, Recoding
from dp_pipeline.raw.counters.checked import CheckedRows
from dp_pipeline.raw.counters.fold import FoldCounter, answer_batch
from dp_pipeline.raw.counters.stream import StoredRows
from dp_pipeline.raw.workers import in_threads


class MemoryCounter(FoldCounter):
    """A counter of prepared rows that are arrays in memory.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    rows          number of rows
    fingerprint   of the stored tables and of when they were read from the source; empty without
    left_out      number of rows that preparation left out

    Damaged for too many rows, and if an array has another length, or a value outside its range.

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
        left_out: int = 0,
    ) -> None:
        self._batch = Batch(
            coordinates={name: coordinates[name] for name in domain.numeric},
            codes={name: codes[name] for name in domain.discrete},
            sizes={name: domain[name].size for name in domain.discrete},
            rows=rows,
        )
        fold = partial(answer_batch, self._batch)
        super().__init__(domain, fold, fingerprint=fingerprint, left_out=left_out)

    @classmethod
    def of_stored(cls, domain: Domain, rows: CheckedRows) -> MemoryCounter:
        """Read stored rows into memory, and return a counter of them; Damaged if a file changed."""
        coordinates, codes = rows.run_checked(lambda: _read_columns(domain, rows.stored_rows))
        return cls(
            domain,
            coordinates=coordinates,
            codes=codes,
            rows=rows.stored_rows.row_count,
            fingerprint=rows.fingerprint,
            left_out=rows.left_out,
        )

    def _recoded(self, derived: Recoding, domain: Domain) -> MemoryCounter:
        rows = self._batch.recoded(derived)
        return MemoryCounter(
            domain,
            coordinates=rows.coordinates,
            codes=rows.codes,
            rows=rows.rows,
            left_out=self._left_out,
        )


Columns = dict[str, NDArray[Any]]


def _read_columns(domain: Domain, stored_rows: StoredRows) -> tuple[Columns, Columns]:
    rows_in_all = stored_rows.row_count
    coordinates: Columns = {name: np.empty(rows_in_all, np.int32) for name in domain.numeric}
    codes: Columns = {
        name: np.empty(rows_in_all, np.min_scalar_type(size - 1))
        for name, size in stored_rows.sizes
    }
    ends = list(accumulate(rows for _, _, rows in stored_rows.groups))

    def fill(index: int) -> None:
        for batch in stored_rows.batches(list(coordinates), list(codes), [index]):
            rows = slice(ends[index] - batch.rows, ends[index])
            for name, column in batch.coordinates.items():
                coordinates[name][rows] = column
            for name, column in batch.codes.items():
                codes[name][rows] = column

    deque(in_threads(fill, range(len(ends))), maxlen=0)
    return coordinates, codes

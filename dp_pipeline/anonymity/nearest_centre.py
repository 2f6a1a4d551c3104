"""NearestCentre: which of some typical rows a row is most like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.anonymity.coded_rows import Column
from dp_pipeline.anonymity.gower import Gower
from dp_pipeline.schema.encoding import IntArray


@dataclass(frozen=True)
class NearestCentre:
    """The rule of a clustering, for rows that it was made of and for others alike.

    source    the columns
    centres   one code a column each; the first of equally near ones counts
    """

    source: tuple[Column, ...]
    centres: tuple[tuple[int, ...], ...]

    @cached_property
    def _distance(self) -> Gower:
        return Gower.of(self.source)

    @cached_property
    def _by_level(self) -> NDArray[np.float32]:
        shape = len(self.centres), len(self.source)
        return self._distance.from_centres(np.array(self.centres, dtype=np.int64).reshape(shape))

    def places(self, codes: NDArray[np.integer]) -> IntArray:
        """The number of the nearest centre of every row (n,), of codes (n, d)."""
        return self._distance.nearest(codes, self._by_level)

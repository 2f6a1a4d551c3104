"""The engine for tables that fit in memory: NumPy arrays in, sealed exact counts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.gate.counts import MOST_GRID_CELLS, Sealed
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.raw.counters.distances import exact_distance_total
from dp_pipeline.raw.counters.grids import grid_counts
from dp_pipeline.raw.counters.marginals import exact_marginals
from dp_pipeline.raw.ingest import read_stage
from dp_pipeline.raw.readiness import require_prepared
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.schema.errors import BoundaryViolation, Damaged
from dp_pipeline.schema.spec import DatasetSpec

MOST_ROWS = 1 << 31
"""Below this, no total that the engine gives can overflow."""


class MemoryCounter:
    """Exact whole numbers about prepared rows held as arrays. Implements ``gate.counts.Counter``.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    rows          number of rows

    Damaged when an array has another length or a value that preparation does not write.

    >>> from dp_pipeline.schema.domain import Attribute
    >>> from dp_pipeline.schema.encoding import Levels
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
    ) -> None:
        self._domain, self._rows = domain, rows
        self._coordinates = {name: coordinates[name] for name in domain.numeric}
        self._codes = {name: codes[name] for name in domain.discrete}
        self._sizes = {name: domain[name].size for name in domain.discrete}
        edge = 1 << COORDINATE_BITS
        sound = 0 <= rows < MOST_ROWS
        sound &= all(_lies(q, rows, -edge, edge) for q in self._coordinates.values())
        sound &= all(_lies(c, rows, 0, self._sizes[name] - 1) for name, c in self._codes.items())
        if not sound:
            raise Damaged("counter: expected columns as preparation writes them, got others")

    @classmethod
    def open(cls, spec: DatasetSpec, snapshot: Snapshot) -> MemoryCounter:
        """The engine over a prepared snapshot.

        NotPrepared unless the snapshot was validated and prepared under this
        declaration; Damaged when a stored table is not the one that was stored.
        """
        names = spec.domain.discrete
        with snapshot.alone():
            require_prepared(spec, snapshot)
            stored = read_stage(snapshot, "normalized")
            codes = _arrays(read_stage(snapshot, "discretized"), names) if names else {}
        rows, coordinates = stored.num_rows, _arrays(stored, spec.domain.numeric)
        return cls(spec.domain, coordinates=coordinates, codes=codes, rows=rows)

    def __repr__(self) -> str:
        return f"MemoryCounter({len(self._domain.names)} attributes)"

    @property
    def domain(self) -> Domain:
        """The declared attributes: public."""
        return self._domain

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """One table a marginal, in the order asked; () is the number of rows, shape ().

        BoundaryViolation for an attribute twice in one marginal and for more than
        MOST_GRID_CELLS cells; DeclarationError for an attribute without cells.
        """
        return [Sealed(table) for table in self.exact_tables(marginals)]

    def exact_tables(self, marginals: Sequence[tuple[str, ...]]) -> list[IntArray]:
        """What ``count`` seals. For comparisons inside ``raw`` only."""
        for names in marginals:
            _require_different(names)
            _require_size(self._domain.cell_count(names))
        return exact_marginals(self._codes, self._sizes, marginals, rows=self._rows)

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Counts of ``cells`` equal intervals an axis over the declared box, all cells included.

        BoundaryViolation for no column, a column twice, no cells and more than MOST_GRID_CELLS.
        """
        self._domain.box(columns)
        _require_different(columns)
        if not columns or cells < 1:
            raise BoundaryViolation(f"grid: expected columns and cells, got {cells} an axis")
        _require_size(cells ** len(columns))
        arrays = [self._coordinates[name] for name in columns]
        return Sealed(grid_counts(arrays, cells, rows=self._rows))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Σ over rows of min(D, clip) >> shift, shape (); see ``gate.counts.Counter``.

        BoundaryViolation, from public numbers alone, for a rule that could overflow.
        """
        self._domain.box(rule.columns)
        rule.require_exact(clip=clip, shift=shift)
        arrays = [self._coordinates[name] for name in rule.columns]
        total = exact_distance_total(rule, arrays, rows=self._rows, clip=clip, shift=shift)
        return Sealed(np.array(total, dtype=np.int64))


def _lies(values: NDArray[Any], rows: int, low: int, high: int) -> bool:
    if values.shape != (rows,) or not np.issubdtype(values.dtype, np.integer):
        return False
    return rows == 0 or bool(values.min() >= low and values.max() <= high)


def _arrays(table: pa.Table, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy() for name in names}


def _require_different(names: tuple[str, ...]) -> None:
    if len(set(names)) < len(names):
        raise BoundaryViolation(f"expected each attribute once, got {', '.join(names)}")


def _require_size(cells: int) -> None:
    if cells > MOST_GRID_CELLS:
        raise BoundaryViolation(f"expected at most {MOST_GRID_CELLS} cells, got {cells}")

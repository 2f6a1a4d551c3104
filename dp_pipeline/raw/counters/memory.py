"""The engine for tables that fit in memory: NumPy arrays in, sealed exact counts out.

What is shown of benchmark rows without noise: their bounds, and a few of them.

How often a rule about codes is right, exact, block after block of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_pipeline.gate.checks import (
    require_axes,
    require_cells,
    require_derived,
    require_grid,
    require_groupings,
    require_nodes,
    require_rule,
    require_subsets,
    require_table,
    require_tree,
)
from dp_pipeline.gate.counter import MOST_GRID_CELLS, Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel, hash_of
from dp_pipeline.raw.counters.geometry import (
    Columns,
    exact_distance_total,
    grid_counts,
    levels_by_centre,
    prefix_counts,
    residual_totals,
    sorted_keys,
    sums_by_centre,
)
from dp_pipeline.raw.counters.tables import (
    ROWS_A_CHUNK,
    Codes,
    exact_marginals,
    keys_of,
    occupied_cells,
)
from dp_pipeline.raw.ingest import read_with_fingerprint
from dp_pipeline.raw.snapshot import Snapshot, require_prepared
from dp_pipeline.release.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.release.trees import BitTree, Prefixes
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.domain import Domain
from dp_pipeline.spec.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.spec.errors import BoundaryViolation, Damaged


def exact_bounds(columns: Columns) -> IntArray:
    """Smallest and largest coordinate of every column, (2, d); the box where there is no row."""
    edge = 1 << COORDINATE_BITS
    if not len(columns[0]):
        return np.array([[-edge] * len(columns), [edge] * len(columns)], dtype=np.int64)
    return np.array([[q.min() for q in columns], [q.max() for q in columns]], dtype=np.int64)


def first_by_hash(columns: Columns, many: int, salt: int) -> IntArray:
    """The ``many`` rows with the smallest hash, (many, d), zeros where there are fewer.

    Rows of one hash are ordered by their coordinates: position decides nothing.
    """
    found = np.zeros((many, len(columns)), dtype=np.int64)
    hashes = hash_of(columns, salt)
    if len(hashes) > many:
        few = np.flatnonzero(hashes <= np.partition(hashes, many - 1)[many - 1])
        columns, hashes = [q[few] for q in columns], hashes[few]
    order = np.lexsort((*reversed(columns), hashes))[:many]
    for axis, q in enumerate(columns):
        found[: len(order), axis] = q[order]
    return found


def right_and_wrong(rule: PredictedLabel, codes: Codes, *, rows: int) -> IntArray:
    """Rows that an exact rule (``PredictedLabel.require_exact``) answers rightly, and wrongly.

    >>> rule = PredictedLabel("b", (1,), ("a",), ((-1, 1),), 0)
    >>> right_and_wrong(rule, {"a": np.array([0, 1, 1]), "b": np.array([0, 1, 0])}, rows=3)
    array([2, 1])
    """
    weights = {
        name: np.array(one, dtype=np.int64)
        for name, one in zip(rule.columns, rule.weights, strict=True)
    }
    right = 0
    for start in range(0, rows, ROWS_A_CHUNK):
        block = slice(start, min(start + ROWS_A_CHUNK, rows))
        total = np.full(block.stop - start, rule.intercept, dtype=np.int64)
        for name, one in weights.items():
            total += one[codes[name][block]]
        positive = np.isin(codes[rule.target][block], rule.positive)
        right += int(((total > 0) == positive).sum())
    return np.array([right, rows - right], dtype=np.int64)


MOST_ROWS = 1 << 31
"""Below this, no total that the engine gives can overflow."""


class MemoryCounter:
    """Exact whole numbers about prepared rows held as arrays: ``Counter`` and ``Disclosing`` of
    ``gate.counter``.

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
        self._domain, self._rows, self.fingerprint = domain, rows, fingerprint
        self._coordinates = {name: coordinates[name] for name in domain.numeric}
        self._codes = {name: codes[name] for name in domain.discrete}
        self._sizes = {name: domain[name].size for name in domain.discrete}
        edge = 1 << COORDINATE_BITS
        self._keys: tuple[BitTree, NDArray[Any]] | None = None
        sound = 0 <= rows < MOST_ROWS
        sound &= all(_lies(q, rows, -edge, edge) for q in self._coordinates.values())
        sound &= all(_lies(c, rows, 0, self._sizes[name] - 1) for name, c in self._codes.items())
        if not sound:
            raise Damaged("counter: expected columns as preparation writes them, got others")

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
            require_table(self._domain, names)
        return exact_marginals(self._codes, self._sizes, marginals, rows=self._rows)

    def grouped(self, groupings: Mapping[str, Grouping]) -> MemoryCounter:
        """The same rows where the levels of some attributes are groups; see ``Counter``.

        BoundaryViolation for what is no group of every level.
        """
        require_groupings(self._domain, groupings)
        domain = self._domain.replaced(
            {name: one.of(self._domain[name]) for name, one in groupings.items()}
        )
        codes = {
            name: _group_of(groupings[name])[column] if name in groupings else column
            for name, column in self._codes.items()
        }
        coordinates = {name: self._coordinates[name] for name in domain.numeric}
        return MemoryCounter(domain, coordinates=coordinates, codes=codes, rows=self._rows)

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> MemoryCounter:
        """The same rows with attributes more; see ``Counter``. A byte or more a row for each.

        BoundaryViolation for what others do not decide.
        """
        require_derived(self._domain, derived)
        added = tuple(one.named(name) for name, one in derived.items())
        codes = {name: self._derived(one) for name, one in derived.items()}
        return MemoryCounter(
            Domain((*self._domain, *added), self._domain.constraints),
            coordinates=self._coordinates,
            codes=self._codes | codes,
            rows=self._rows,
        )

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Key and count of every cell with rows, (m, 2); see ``Counter``.

        BoundaryViolation for no attribute, an attribute twice and more than 2^62 cells.
        """
        require_cells(self._domain, attributes)
        return Sealed(occupied_cells(self._codes, self._sizes, attributes, rows=self._rows))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Counts of ``cells`` equal intervals an axis over the declared box, all cells included.

        BoundaryViolation for no column, a column twice, no cells and more than MOST_GRID_CELLS.
        """
        require_grid(self._domain, columns, cells)
        return Sealed(grid_counts(self._columns(columns), cells, rows=self._rows))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Σ over rows of min(D, clip) >> shift, shape (); see ``gate.counter.Counter``.

        BoundaryViolation, from public numbers alone, for a rule that could overflow.
        """
        require_rule(self._domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        arrays = self._columns(rule.columns)
        total = exact_distance_total(rule, arrays, rows=self._rows, clip=clip, shift=shift)
        return Sealed(np.array(total, dtype=np.int64))

    def children(self, tree: BitTree, nodes: Prefixes, bits: int) -> Sealed:
        """Rows in every box ``bits`` below each node, shape (m, 2^bits); see ``Counter``.

        BoundaryViolation for a tree or nodes that are none, and for more than MOST_GRID_CELLS
        boxes. Sorted keys of the last tree are kept: 4 or 8 bytes a row.
        """
        require_tree(self._domain, tree)
        require_nodes(tree, nodes, bits)
        _require_size(len(nodes) << bits)
        if self._keys is None or self._keys[0] != tree:
            self._keys = None
            keys = sorted_keys(tree, self._columns(tree.columns), rows=self._rows)
            self._keys = tree, keys
        return Sealed(prefix_counts(self._keys[1], tree.depth, nodes, bits))

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Sizes and totals of the clusters of every subset, shape (m, k, 1 + d); see ``Counter``.

        BoundaryViolation, from public numbers alone, for rules of different kinds.
        """
        require_subsets(self._domain, rules, salt)
        arrays = self._columns(rules[0].columns)
        return Sealed(sums_by_centre(rules, arrays, rows=self._rows, salt=salt))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Clipped residual totals of every cluster, shape (k, d); see ``Counter``.

        BoundaryViolation, from public numbers alone, for radii that are not exact.
        """
        require_rule(self._domain, rule)
        rule.require_radii(radii)
        return Sealed(residual_totals(rule, radii, self._columns(rule.columns), rows=self._rows))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Rows of every level of ``attribute`` in every cluster, shape (levels, k).

        BoundaryViolation, from public numbers alone, for a rule that could overflow;
        DeclarationError for an attribute without cells.
        """
        require_rule(self._domain, rule)
        levels = self._domain[attribute].size
        _require_size(levels * len(rule.centres))
        codes, arrays = self._codes[attribute], self._columns(rule.columns)
        return Sealed(levels_by_centre(rule, codes, levels, arrays, rows=self._rows))

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Rows that the rule answers rightly, and wrongly, shape (2,); see ``Counter``.

        BoundaryViolation, from public numbers alone, for a rule that is not exact;
        DeclarationError for an attribute without cells.
        """
        rule.require_exact(self._domain)
        return Sealed(right_and_wrong(rule, self._codes, rows=self._rows))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Smallest and largest coordinate of every column, (2, d); see ``Disclosing``."""
        require_axes(self._domain, columns)
        return Sealed(exact_bounds(self._columns(columns)))

    def records(self, columns: tuple[str, ...], many: int, salt: int) -> Sealed:
        """The ``many`` rows with the smallest content hash, (many, d); see ``Disclosing``."""
        require_axes(self._domain, columns)
        return Sealed(first_by_hash(self._columns(columns), many, salt))

    def _derived(self, one: DerivedAttribute) -> NDArray[Any]:
        groups = np.array(one.groups, dtype=np.min_scalar_type(one.size - 1))
        return groups[keys_of(self._codes, self._sizes, one.attributes, slice(0, self._rows))]

    def _columns(self, columns: tuple[str, ...]) -> list[NDArray[Any]]:
        return [self._coordinates[name] for name in columns]


def _lies(values: NDArray[Any], rows: int, low: int, high: int) -> bool:
    if values.shape != (rows,) or not np.issubdtype(values.dtype, np.integer):
        return False
    return rows == 0 or bool(values.min() >= low and values.max() <= high)


def _group_of(grouping: Grouping) -> NDArray[Any]:
    # From the groups that were checked, in as few bytes as hold them.
    return np.array(grouping.groups, dtype=np.min_scalar_type(grouping.size - 1))


def combined_fingerprint(reading: str, *fingerprints: str) -> str:
    """One fingerprint of all tables. Rows that are read once more are other rows, whatever they
    hold: whether they have changed is a question about rows, which no outcome may answer.
    """
    return hashlib.sha256("\0".join((reading, *fingerprints)).encode()).hexdigest()


def _arrays(table: pa.Table, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    return {name: table.column(name).to_numpy() for name in names}


def _require_size(cells: int) -> None:
    if cells > MOST_GRID_CELLS:
        raise BoundaryViolation(f"expected at most {MOST_GRID_CELLS} cells, got {cells}")

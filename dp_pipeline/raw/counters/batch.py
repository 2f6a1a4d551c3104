"""Batches of prepared rows as arrays, which answer every query by exact integers.

Queries can be pickled and sent to the rows. ``merge`` combines the answers of two batches, mostly
as sums, so answers do not depend on the division into batches or on the order of counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.config.errors import Damaged
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel, hash_of
from dp_pipeline.metrics.classification import LinearClassifier
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
    cell_keys,
    exact_marginals,
    occupied_cells,
)
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.trees import BitTree, Prefixes

MAX_ROWS = 1 << 37  # Bound on the rows of all batches, below which no total of a query can overflow
Answer = tuple[IntArray, ...]
Recoding = Mapping[str, DerivedAttribute]  # A name that is there already gets the derived codes


@dataclass(frozen=True)
class BatchQuery:
    """One query about rows, with the recodings that precede it, in order.

    kind        name of the method of ``Batch`` that answers it, such as ``count``
    arguments   arguments of the method
    axes        attributes whose coordinates it reads
    cells       recoded attributes whose codes it reads
    """

    kind: str
    arguments: tuple[Any, ...]
    axes: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    recodings: tuple[Recoding, ...] = ()

    @property
    def prepared_cells(self) -> frozenset[str]:
        """The attributes of the stored rows whose codes the query reads, before recodings."""
        names = self.cells
        for derived in reversed(self.recodings):
            inputs = (derived[name].attributes if name in derived else (name,) for name in names)
            names = frozenset(chain.from_iterable(inputs))
        return names

    @property
    def stages(self) -> frozenset[str]:
        """The stored stages from which the query reads columns; empty for the number of rows."""
        columns_read = {"normalized": self.axes, "discretized": self.prepared_cells}
        return frozenset(stage for stage, columns in columns_read.items() if columns)


class Batch:
    """A batch of prepared rows that answers the queries of ``gate.counter``, without checking them.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    sizes         attribute with cells → number of cells

    Damaged for MAX_ROWS rows or more, and if an array has another length, or a value that
    preparation does not write.

    >>> batch = Batch(coordinates={}, codes={"sex": np.array([0, 1, 1])}, sizes={"sex": 2}, rows=3)
    >>> batch.answer(BatchQuery("count", ((("sex",),),), cells=frozenset({"sex"})))
    (array([1, 2]),)
    """

    def __init__(
        self,
        *,
        coordinates: Mapping[str, NDArray[Any]],
        codes: Mapping[str, NDArray[Any]],
        sizes: Mapping[str, int],
        rows: int,
    ) -> None:
        self.coordinates, self.codes, self.sizes, self.rows = coordinates, codes, sizes, rows
        self._tree_keys: tuple[BitTree, NDArray[Any]] | None = None
        edge = 1 << COORDINATE_BITS
        for name, column in coordinates.items():
            _require_column(name, column, rows, -edge, edge)
        for name, column in codes.items():
            _require_column(name, column, rows, 0, sizes[name] - 1)
        if not 0 <= rows < MAX_ROWS:
            raise Damaged(
                f"The number of prepared rows must be from 0 to {MAX_ROWS - 1}, but it is not: "
                "declare a source of fewer rows, or `windows`"
            )

    def recoded(self, recoding: Recoding) -> Batch:
        """Return a batch of the same rows with derived attributes, which read this batch's codes.

        A recoded attribute loses its coordinates; one derived from an absent one is skipped."""
        codes, sizes = dict(self.codes), dict(self.sizes)
        for name, derived in recoding.items():
            if all(source in self.codes for source in derived.attributes):
                groups, rows = _smallest(derived.groups, derived.size), slice(0, self.rows)
                codes[name] = groups[cell_keys(self.codes, self.sizes, derived.attributes, rows)]
                sizes[name] = derived.size
        coordinates = {name: q for name, q in self.coordinates.items() if name not in recoding}
        return Batch(coordinates=coordinates, codes=codes, sizes=sizes, rows=self.rows)

    def answer(self, query: BatchQuery) -> Answer:
        """Return the exact answer to a query about these rows, as a tuple of arrays.

        The query's recodings are not applied: these rows are as ``recoded`` returns them."""
        answer: Answer = getattr(self, query.kind)(*query.arguments)
        return answer

    def _columns(self, names: Sequence[str]) -> Columns:
        return [self.coordinates[name] for name in names]

    def count(self, marginals: Sequence[tuple[str, ...]]) -> Answer:
        return tuple(exact_marginals(self.codes, self.sizes, marginals, rows=self.rows))

    def occupied(self, attributes: tuple[str, ...]) -> Answer:
        return (occupied_cells(self.codes, self.sizes, attributes, rows=self.rows),)

    def grid(self, columns: tuple[str, ...], cells: int) -> Answer:
        return (grid_counts(self._columns(columns), cells, rows=self.rows),)

    def distance_total(self, rule: NearestCentre, clip: int, shift: int) -> Answer:
        columns = self._columns(rule.columns)
        total = exact_distance_total(rule, columns, rows=self.rows, clip=clip, shift=shift)
        return (np.array(total, dtype=np.int64),)

    def children(self, tree: BitTree, queries: Sequence[tuple[Prefixes, int]]) -> Answer:
        # The sorted keys of the last tree are cached: 4 or 8 bytes a row.
        if self._tree_keys is None or self._tree_keys[0] != tree:
            self._tree_keys = None
            self._tree_keys = tree, sorted_keys(tree, self._columns(tree.columns), rows=self.rows)
        keys = self._tree_keys[1]
        return tuple(prefix_counts(keys, tree.depth, nodes, bits) for nodes, bits in queries)

    def sum_by_centre(self, rules: Sequence[NearestCentre], salt: int) -> Answer:
        columns = self._columns(rules[0].columns)
        return (sums_by_centre(rules, columns, rows=self.rows, salt=salt),)

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Answer:
        return (residual_totals(rule, radii, self._columns(rule.columns), rows=self.rows),)

    def classify(self, rule: NearestCentre, attribute: str) -> Answer:
        codes, levels = self.codes[attribute], self.sizes[attribute]
        return (levels_by_centre(rule, codes, levels, self._columns(rule.columns), rows=self.rows),)

    def mistakes(self, rule: PredictedLabel) -> Answer:
        classifier = LinearClassifier(rule.columns, rule.weights, rule.intercept)
        answers = np.isin(self.codes[rule.target], rule.positive)
        wrong = classifier.mistakes(self.codes, answers)
        return (np.array([self.rows - wrong, wrong], dtype=np.int64),)

    def bounds(self, columns: tuple[str, ...]) -> Answer:
        if not self.rows:
            # The edges of the box.
            edge = 1 << COORDINATE_BITS
            return (np.array([[-edge] * len(columns), [edge] * len(columns)], dtype=np.int64),)
        least, most = zip(*((q.min(), q.max()) for q in self._columns(columns)), strict=True)
        return (np.array([least, most], dtype=np.int64),)

    def records(self, columns: tuple[str, ...], limit: int, salt: int) -> Answer:
        return (first_by_hash(self._columns(columns), limit, salt),)


def merge(query: BatchQuery, answer: Answer, addend: Answer) -> Answer:
    """Return the answer about two batches, merged from one about each; may overwrite ``answer``."""
    match query.kind:
        case "occupied":
            cells = np.concatenate([answer[0], addend[0]])
            keys, positions = np.unique(cells[:, 0], return_inverse=True)
            merged = np.stack([keys, np.zeros_like(keys)], axis=1)
            np.add.at(merged[:, 1], positions, cells[:, 1])
            return (merged,)
        case "bounds":
            low, high = np.minimum(answer[0], addend[0]), np.maximum(answer[0], addend[0])
            return (np.stack([low[0], high[1]]),)
        case "records":
            _, limit, salt = query.arguments
            return (first_by_hash(list(np.concatenate([answer[0], addend[0]]).T), limit, salt),)
        case _:
            # In place: the largest grid has 134 MB.
            return tuple(np.add(a, b, out=a) for a, b in zip(answer, addend, strict=True))


def first_by_hash(columns: Columns, limit: int, salt: int) -> IntArray:
    """Return the coordinates (m, d) of up to ``limit`` rows with the smallest salted hashes.

    They are sorted by hash, then by coordinates."""
    hashes = hash_of(columns, salt)
    if len(hashes) > limit:
        candidates = np.flatnonzero(hashes <= np.partition(hashes, limit - 1)[limit - 1])
        columns, hashes = [q[candidates] for q in columns], hashes[candidates]
    order = np.lexsort((*reversed(columns), hashes))[:limit]
    return np.stack([q[order] for q in columns], axis=1).astype(np.int64)


def _require_column(name: str, values: NDArray[Any], rows: int, low: int, high: int) -> None:
    is_whole = values.shape == (rows,) and np.issubdtype(values.dtype, np.integer)
    if not is_whole or (rows and not low <= values.min() <= values.max() <= high):
        raise Damaged(
            f"The prepared column {name!r} must have a whole number from {low} to {high} in each "
            "row, but it does not: run Dagster's job DATASET_prepare"
        )


def _smallest(groups: Sequence[int], size: int) -> NDArray[Any]:
    return np.array(groups, dtype=np.min_scalar_type(size - 1))

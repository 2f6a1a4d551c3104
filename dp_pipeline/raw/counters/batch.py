"""Batch: some prepared rows as arrays, and every question about them in unsealed whole numbers.

Questions are plain data, so that they can be sent to where the rows are. Answers about two batches
are put together by ``joined``: nearly all of them are sums. So it does not matter how rows are cut
into batches, nor in which order, or by whom, they are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.config.errors import Damaged
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
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

MOST_ROWS = 1 << 37
"""Of all batches together: below this, no total of the questions can overflow."""

Answer = tuple[IntArray, ...]


@dataclass(frozen=True)
class BatchRecoding:
    """What is done to the codes of every row before it is looked at: levels put into groups, then
    attributes more, which a row's own others decide.
    """

    groupings: Mapping[str, Grouping] = field(default_factory=dict)
    derived: Mapping[str, DerivedAttribute] = field(default_factory=dict)

    def needs(self, names: frozenset[str]) -> frozenset[str]:
        """The attributes that decide ``names``."""
        found = (
            self.derived[name].attributes if name in self.derived else (name,) for name in names
        )
        return frozenset(one for names in found for one in names)


@dataclass(frozen=True)
class BatchQuery:
    """One question, as ``gate.counter`` has them, and how the rows are recoded before.

    kind        the name of the method there
    arguments   of the method
    axes        attributes whose coordinates are looked at
    cells       attributes, recoded, whose codes are looked at
    """

    kind: str
    arguments: tuple[Any, ...]
    axes: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    recodings: tuple[BatchRecoding, ...] = ()

    @property
    def prepared_cells(self) -> frozenset[str]:
        """The attributes whose codes, as they were prepared, are looked at."""
        return reduce(lambda names, one: one.needs(names), reversed(self.recodings), self.cells)

    @property
    def stages(self) -> frozenset[str]:
        """The stages of which a column is looked at; none where rows are counted alone."""
        looked_at = {"normalized": self.axes, "discretized": self.prepared_cells}
        return frozenset(stage for stage, columns in looked_at.items() if columns)


class Batch:
    """Some prepared rows.

    coordinates   numeric attribute → fixed-point integers (rows,) in [−2^16, 2^16]
    codes         attribute with cells → codes (rows,) below its size
    sizes         attribute with cells → number of them

    Damaged when an array has another length or a value that preparation does not write.

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
        self._keys: tuple[BitTree, NDArray[Any]] | None = None
        edge = 1 << COORDINATE_BITS
        sound = 0 <= rows < MOST_ROWS
        sound &= all(_lies(q, rows, -edge, edge) for q in coordinates.values())
        sound &= all(_lies(one, rows, 0, sizes[name] - 1) for name, one in codes.items())
        if not sound:
            raise Damaged("counter: expected columns as preparation writes them, got others")

    def recoded(self, recoding: BatchRecoding) -> Batch:
        """The same rows in other words, as far as their attributes are here."""
        groupings = {name: g for name, g in recoding.groupings.items() if name in self.codes}
        codes, sizes = dict(self.codes), dict(self.sizes)
        for name, grouping in groupings.items():
            codes[name] = _group_of(grouping)[codes[name]]
            sizes[name] = grouping.size
        coordinates = {name: q for name, q in self.coordinates.items() if name not in groupings}
        derived = {
            name: one
            for name, one in recoding.derived.items()
            if all(other in codes for other in one.attributes)
        }
        added = {name: self._derived(one, codes, sizes) for name, one in derived.items()}
        sizes |= {name: one.size for name, one in derived.items()}
        return Batch(coordinates=coordinates, codes=codes | added, sizes=sizes, rows=self.rows)

    def _derived(
        self, one: DerivedAttribute, codes: Codes, sizes: Mapping[str, int]
    ) -> NDArray[Any]:
        groups = np.array(one.groups, dtype=np.min_scalar_type(one.size - 1))
        return groups[keys_of(codes, sizes, one.attributes, slice(0, self.rows))]

    def answer(self, question: BatchQuery) -> Answer:
        """What ``gate.counter`` says of its method, unsealed. The recoding is not done here."""
        return self._ANSWERS[question.kind](self, *question.arguments)

    def _columns(self, names: Sequence[str]) -> Columns:
        return [self.coordinates[name] for name in names]

    def _count(self, marginals: Sequence[tuple[str, ...]]) -> Answer:
        return tuple(exact_marginals(self.codes, self.sizes, marginals, rows=self.rows))

    def _occupied(self, attributes: tuple[str, ...]) -> Answer:
        return (occupied_cells(self.codes, self.sizes, attributes, rows=self.rows),)

    def _grid(self, columns: tuple[str, ...], cells: int) -> Answer:
        return (grid_counts(self._columns(columns), cells, rows=self.rows),)

    def _distance_total(self, rule: NearestCentre, clip: int, shift: int) -> Answer:
        arrays = self._columns(rule.columns)
        total = exact_distance_total(rule, arrays, rows=self.rows, clip=clip, shift=shift)
        return (np.array(total, dtype=np.int64),)

    def _children(self, tree: BitTree, asked: Sequence[tuple[Prefixes, int]]) -> Answer:
        """Sorted keys of the last tree are kept: 4 or 8 bytes a row."""
        if self._keys is None or self._keys[0] != tree:
            self._keys = None
            self._keys = tree, sorted_keys(tree, self._columns(tree.columns), rows=self.rows)
        keys = self._keys[1]
        return tuple(prefix_counts(keys, tree.depth, nodes, bits) for nodes, bits in asked)

    def _sum_by_centre(self, rules: Sequence[NearestCentre], salt: int) -> Answer:
        arrays = self._columns(rules[0].columns)
        return (sums_by_centre(rules, arrays, rows=self.rows, salt=salt),)

    def _residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Answer:
        return (residual_totals(rule, radii, self._columns(rule.columns), rows=self.rows),)

    def _classify(self, rule: NearestCentre, attribute: str) -> Answer:
        codes, levels = self.codes[attribute], self.sizes[attribute]
        return (levels_by_centre(rule, codes, levels, self._columns(rule.columns), rows=self.rows),)

    def _mistakes(self, rule: PredictedLabel) -> Answer:
        return (right_and_wrong(rule, self.codes, rows=self.rows),)

    def _bounds(self, columns: tuple[str, ...]) -> Answer:
        return (exact_bounds(self._columns(columns)),)

    def _records(self, columns: tuple[str, ...], many: int, salt: int) -> Answer:
        return (first_by_hash(self._columns(columns), many, salt),)

    _ANSWERS: Mapping[str, Callable[..., Answer]] = {
        "count": _count,
        "occupied": _occupied,
        "grid": _grid,
        "distance_total": _distance_total,
        "children": _children,
        "sum_by_centre": _sum_by_centre,
        "residuals": _residuals,
        "classify": _classify,
        "mistakes": _mistakes,
        "bounds": _bounds,
        "records": _records,
    }


def joined(question: BatchQuery, one: Answer, other: Answer) -> Answer:
    """The answer about two batches together, neither of which is empty; ``one`` is used up."""
    match question.kind:
        case "occupied":
            return (_by_key(one[0], other[0]),)
        case "bounds":
            low, high = np.minimum(one[0], other[0]), np.maximum(one[0], other[0])
            return (np.stack([low[0], high[1]]),)
        case "records":
            _, many, salt = question.arguments
            return (first_by_hash(list(np.concatenate([one[0], other[0]]).T), many, salt),)
        case _:
            # In place: the largest grid has 134 MB.
            return tuple(np.add(a, b, out=a) for a, b in zip(one, other, strict=True))


def _by_key(one: IntArray, other: IntArray) -> IntArray:
    """Cells (m, 2) with the sums of their counts, ascending by key."""
    both = np.concatenate([one, other])
    keys, places = np.unique(both[:, 0], return_inverse=True)
    found = np.stack([keys, np.zeros_like(keys)], axis=1)
    np.add.at(found[:, 1], places, both[:, 1])
    return found


def exact_bounds(columns: Columns) -> IntArray:
    """Smallest and largest coordinate of every column, (2, d); the box where there is no row."""
    edge = 1 << COORDINATE_BITS
    if not len(columns[0]):
        return np.array([[-edge] * len(columns), [edge] * len(columns)], dtype=np.int64)
    return np.array([[q.min() for q in columns], [q.max() for q in columns]], dtype=np.int64)


def first_by_hash(columns: Columns, many: int, salt: int) -> IntArray:
    """The ``many`` rows with the smallest hash, ascending, (many, d); all where there are fewer.

    Rows of one hash are ordered by their coordinates: position decides nothing.
    """
    hashes = hash_of(columns, salt)
    if len(hashes) > many:
        few = np.flatnonzero(hashes <= np.partition(hashes, many - 1)[many - 1])
        columns, hashes = [q[few] for q in columns], hashes[few]
    order = np.lexsort((*reversed(columns), hashes))[:many]
    return np.stack([q[order] for q in columns], axis=1).astype(np.int64)


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


def _lies(values: NDArray[Any], rows: int, low: int, high: int) -> bool:
    if values.shape != (rows,) or not np.issubdtype(values.dtype, np.integer):
        return False
    return rows == 0 or bool(values.min() >= low and values.max() <= high)


def _group_of(grouping: Grouping) -> NDArray[Any]:
    # From the groups that were checked, in as few bytes as hold them.
    return np.array(grouping.groups, dtype=np.min_scalar_type(grouping.size - 1))

"""The questions that the gate asks of rows, and the sealed exact answers it gets.

``Counter`` is the port: the gate owns it, an engine in ``raw.counters``
implements it. No callable crosses it and every answer is whole numbers, so
all engines agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol, runtime_checkable

from dp_pipeline.config.encoding import Coordinate, IntArray
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

MAX_GRID_CELLS = 1 << 24
"""A dense grid above this size is refused: it is a public number times a public number."""

MAX_GRID_AXES = 32
"""Axes of a dense grid; NumPy's arrays have no more than 64."""


class Sealed:
    """An exact answer on its way to the noise: it shows nothing and cannot be stored."""

    __slots__ = ("_counts",)

    def __init__(self, counts: IntArray) -> None:
        self._counts = counts

    def __repr__(self) -> str:
        return "Sealed(exact counts)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("exact counts are not stored: expected noise first, got pickle or copy")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("exact counts are not compared: expected noise first")

    __hash__ = None  # type: ignore[assignment]

    def open_at_the_gate(self) -> IntArray:
        """Return the counts: between a charge and its noise, in ``gate`` and nowhere else."""
        return self._counts


class UndeclaredCounter(Protocol):
    """Exact whole numbers about validated rows, of attributes whose domain is to be discovered.

    Rows count that are valid in every attribute that leaves nothing to be discovered, and of them
    at most ``protection.rows`` of one person, chosen by her own rows alone: two neighbouring data
    sets differ by ``spec.distance`` rows that count, at most.
    """

    def kinds(self, attributes: tuple[str, ...]) -> Sealed:
        """Return rows whose value is a whole number, another number, and another text, of each
        attribute, shape (3 · attributes,). A row is in one of the three of an attribute, or in
        none.
        """
        ...

    def magnitudes(self, attribute: str, edges: tuple[float, ...]) -> Sealed:
        """Return rows of every bucket [edge_i, edge_i+1), shape (len(edges) − 1,), the last one
        with its upper edge. A row is in one bucket, or in none.
        """
        ...

    def texts(self, attribute: str, weights: tuple[int, ...]) -> Sealed:
        """Return every text that occurs, as of ``gate.texts.pack_texts``, then a number each.

        Σ over the persons who have it of weights[j − 1], for a person with j different texts of the
        attribute, at most as many as there are ``weights``.
        """
        ...

    def within(self, attribute: str, interval: Coordinate) -> Counter:
        """Return the rows whose number of an attribute is valid within bounds, as coordinates."""
        ...


class Counter(Protocol):
    """Exact whole numbers about the rows of one prepared data set."""

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """Return one table a marginal, in the order asked; () is the number of rows, shape ()."""
        ...

    def grouped(self, groupings: Mapping[str, Grouping]) -> Counter:
        """Return the same rows where levels of some attributes are groups: a row stays one row."""
        ...

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Counter:
        """Return the same rows with attributes that a row's others decide: a row stays one row."""
        ...

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Return cells with rows of a table of up to 2^62 cells, shape (m, 2), ascending by key.

        A row is a cell's key, the codes read as digits with the last attribute fastest, and
        its number of rows.
        """
        ...

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Return counts of ``cells`` equal intervals an axis over the declared box, all cells
        included.

        Row cell of coordinate q: min(cells − 1, ((q + 2^16) · cells) >> 17). Shape (cells,) · d.
        """
        ...

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Return Σ over rows of min(D, clip) >> shift, shape (); D = min over centres of Σ_j
        (weight_j · (q_j − c_j))², in whole numbers.
        """
        ...

    def children(self, tree: BitTree, requests: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        """Return for each (nodes, bits) of the request the rows in every box ``bits`` further bits
        below each node, empty boxes included; shape (m, 2^bits), in the order of
        ``nodes.children(bits)``; bits = 0 is the nodes themselves. One look at the rows answers all
        of them.

        Bit i of a row is its r-th halving of axis a = axes[i], r = 0 at the first:
        (u >> (16 − r)) & 1 with u = min(q_a + 2^16, 2^17 − 1).
        """
        ...

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Return sizes and totals of the clusters of every subset, shape (m, k, 1 + d).

        Row → subset ``subset_of(q, salt) mod m`` (see ``gate.rules``), m the number of rules;
        its cluster is the lowest index of the nearest centre of that subset's rule. Entry
        [s, j] is the number of such rows, then Σ q_a for each column a.
        All rules have the same columns, weights and number of centres.
        """
        ...

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Return clipped residual totals of every cluster, shape (k, d).

        y_a = weight_a · (q_a − c_a) to the nearest centre j, n = Σ|y_a|; a row adds
        sign(y_a) · (|y_a| · 2^16 // max(n, radii_j)), so at most 2^16 in L1.
        """
        ...

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Return rows of every level of ``attribute`` in every cluster, shape (levels, k)."""
        ...

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Return the rows that the rule predicts rightly and wrongly, shape (2,)."""
        ...


@runtime_checkable
class Disclosing(Protocol):
    """What an engine shows of benchmark rows without noise; see ``gate.curator``."""

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Return the smallest and largest coordinates, shape (2, d); the box where no rows are."""
        ...

    def records(self, columns: tuple[str, ...], many: int, salt: int) -> Sealed:
        """Return the ``many`` rows with the smallest ``gate.rules.hash_of(q, salt)``, shape (many,
        d), ascending by hash, then by coordinates; where rows are missing the middle of the box, 0.
        """
        ...

"""Exact questions that the gate asks of rows, and their sealed answers.

The engines of ``raw.counters`` implement ``Counter``. Arguments are values, not functions, and
answers are integers: so all engines agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import NoReturn, Protocol, Self

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Coordinate, IntArray
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.results.derived_attribute import DerivedAttribute
from dp_pipeline.results.trees import BitTree, Prefixes

MAX_GRID_CELLS = 1 << 24
"""Cells of a dense grid or marginal, at most; larger ones are refused by their public size."""

MAX_GRID_AXES = 32
"""Axes of a dense grid; NumPy's arrays have no more than 64."""


class Sealed:
    """An exact answer before its noise, which cannot be printed, stored or compared."""

    __slots__ = ("_counts",)

    def __init__(self, counts: IntArray) -> None:
        self._counts = counts

    def __repr__(self) -> str:
        return "Sealed(exact counts)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("exact counts must not be stored or copied: add noise first")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("exact counts must not be compared: add noise first")

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: tuple[EllipsisType | slice | int, ...]) -> Self:
        return type(self)(self._counts[index])

    def open_at_the_gate(self) -> IntArray:
        """Return the exact counts; the gate alone calls this, after a charge, before the noise."""
        return self._counts


class UndeclaredDomainCounter(Protocol):
    """A counter of validated rows over attributes whose domain is still to be discovered.

    A row is counted if it is valid in every attribute with a declared domain, and at most
    ``protection.rows`` of one person, chosen by her own rows alone: two neighbouring data sets
    differ by at most ``spec.distance`` counted rows.
    """

    def magnitudes(self, attribute: str, edges: tuple[float, ...]) -> Sealed:
        """Return the number of rows in every bucket [edge_i, edge_i+1), shape (len(edges) − 1,).

        The last bucket includes its upper edge. A row is in at most one bucket.
        """

    def texts(self, attribute: str, weights: tuple[int, ...]) -> Sealed:
        """Return every text that occurs and can be a level, packed by ``gate.texts.pack_texts``,
        then each one's weight: the sum of weights[j − 1] over the persons who have the text, where
        j is the number of different texts of that person.

        weights   one for every j that a person can have: ``protection.rows`` of them
        """

    def within(self, attribute: str, interval: Coordinate) -> Counter:
        """Return a counter of the rows whose value of ``attribute`` lies in an interval, which is
        the declared box of that counter."""


class Counter(Protocol):
    """A counter that gives exact, sealed answers about the rows of one prepared data set."""

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """Return the exact table of each marginal, in order; () stands for the number of rows."""

    def count_left_out(self) -> Sealed:
        """Return the number of rows that preparation left out, shape (); no other answer counts
        them.

        Where rows are of persons, a row without a person's id is not among them, and the counted
        and the left-out rows of one person are together at most ``protection.rows``.
        """

    def recoded(self, derived: Mapping[str, DerivedAttribute], domain: Domain) -> Counter:
        """Return a counter of the same rows with attributes that are derived from those of the row.

        derived   name → the attributes that it is derived from, and the rule: a new name, or the
                  only one of these attributes, whose levels are merged into groups
        domain    the attributes of the new counter
        """

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Return the key and the number of rows of every non-empty cell, (m, 2), ascending by key.

        A key is the codes read as digits, the last attribute fastest; a table has at most 2^62
        cells.
        """

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Return the row counts of a grid over the declared box, with ``cells`` cells on each axis.

        Coordinate q is in cell min(cells − 1, ((q + 2^16) · cells) >> 17) of its axis.
        """

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Return the sum over rows of the clipped squared distance to the nearest centre, shape ().

        A row adds min(D, clip) >> shift, D = min over centres c of Σ_j (weight_j · (q_j − c_j))².
        """

    def children(self, tree: BitTree, requests: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        """Return the number of rows in every box ``bits`` levels below each requested node.

        The shape is (m, 2^bits), in the order of ``nodes.children(bits)``, empty boxes included;
        bits = 0 counts the nodes themselves. One scan of the rows answers all requests.

        Bit i of a row is its r-th halving of axis a = axes[i], r = 0 at the first:
        (u >> (16 − r)) & 1 with u = min(q_a + 2^16, 2^17 − 1).
        """

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Return sizes and coordinate totals of the clusters of every subset, (m, k, 1 + d).

        A row is in subset ``gate.rules.subset_of``(q, salt, m), m the number of rules; its cluster
        is the nearest centre of that subset's rule, the lowest index of equal ones. Entry [s, j] is
        the number of such rows, then Σ q_a for each column a. All rules have the same columns,
        weights and number of centres.
        """

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Return the totals by axis of clipped signed distances from each cluster's centre, (k, d).

        y_a = weight_a · (q_a − c_a) to the nearest centre j, n = Σ|y_a|; a row adds
        sign(y_a) · (|y_a| · 2^16 // max(n, radii_j)), so at most 2^16 in L1.
        """

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Return the number of rows of each level of ``attribute`` in each cluster, (levels, k)."""

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Return the numbers of rows that a rule predicts correctly and incorrectly, (2,)."""

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Return the smallest and largest coordinates, (2, d), or the ends of the box without a
        row.

        A curator asks this and ``records`` of public benchmark rows alone: no noise follows.
        """

    def records(self, columns: tuple[str, ...], many: int, salt: int) -> Sealed:
        """Return the coordinates of the ``many`` rows with the smallest hashes, (many, d).

        They ascend by ``gate.rules.hash_of(q, salt)``, then by coordinates; where there are fewer
        rows, rows of zeros follow, the middle of the box.
        """

"""The counter of the gate's queries, as a fold over batches of rows by any engine.

An engine is one function from queries to their answers about all rows, in one scan. Queries are
checked here, by public numbers, before a row is read. Noise and charges never reach an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.gate import checks
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery, BatchRecoding, merge
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

Partial = list[Answer | None]
"""One answer for each query; None where no row was read."""

Fold = Callable[[Sequence[BatchQuery]], Partial]
"""An engine: queries → their answers about all rows."""

RequireStages = Callable[[Collection[str] | None], None]
"""Raises Damaged unless the tables of some stages, for None of all, are as they were stored."""


def answer_batch(batch: Batch, queries: Sequence[BatchQuery]) -> Partial:
    """Return a batch's answer to each query; queries with equal recodings share recoded rows."""
    if not batch.rows:
        return [None] * len(queries)
    # A list, because recodings have mappings and so no hash.
    recoded: list[tuple[tuple[BatchRecoding, ...], Batch]] = [((), batch)]
    answers: Partial = []
    for query in queries:
        rows = next((rows for recodings, rows in recoded if recodings == query.recodings), None)
        if rows is None:
            rows = batch
            for recoding in query.recodings:
                rows = rows.recoded(recoding)
            recoded.append((query.recodings, rows))
        answers.append(rows.answer(query))
    return answers


def merge_partials(queries: Sequence[BatchQuery], partials: Iterable[Partial]) -> Partial:
    """Return the answers about all rows, merged from those of several batches."""
    totals: Partial = [None] * len(queries)
    for partial in partials:
        for i, (query, answer) in enumerate(zip(queries, partial, strict=True)):
            total = totals[i]
            if answer is not None:
                totals[i] = answer if total is None else merge(query, total, answer)
    return totals


class FoldCounter:
    """A counter that counts prepared rows exactly, batch by batch.

    domain          the declared attributes
    fold            the engine
    recodings       recodings of rows before a query, in order
    fingerprint     fingerprint of the stored tables and their reading; empty without tables
    require_stages  checks these tables; None if there are none or all are checked
    left_out        number of rows that preparation left out

    A query that is invalid or could overflow is refused by public numbers alone: BoundaryViolation,
    or DeclarationError for an attribute without cells.
    """

    def __init__(
        self,
        domain: Domain,
        fold: Fold,
        *,
        recodings: tuple[BatchRecoding, ...] = (),
        fingerprint: str = "",
        require_stages: RequireStages | None = None,
        left_out: int = 0,
    ) -> None:
        self._domain, self._fold, self._recodings = domain, fold, recodings
        self.fingerprint, self._require_stages = fingerprint, require_stages
        self._left_out = left_out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._domain.names)} attributes)"

    @property
    def domain(self) -> Domain:
        """The domain of the declared attributes."""
        return self._domain

    def require_stored(self, rehearsed: object = None) -> None:
        """Raise Damaged if a stored table that a rehearsal has queried is not as it was stored.

        rehearsed   the EmptyCounter of the rehearsal; of any other object all tables are checked

        Other tables are checked before their first answer.
        """
        if self._require_stages is not None:
            self._require_stages(rehearsed.stages if isinstance(rehearsed, EmptyCounter) else None)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """Return the tables of marginals, in their order; that of () is the number of rows."""
        return [Sealed(table) for table in self.exact_tables(marginals)]

    def count_left_out(self) -> Sealed:
        """Return the number of rows that preparation omitted, shape ()."""
        return Sealed(np.array(self._left_out, dtype=np.int64))

    def exact_tables(self, marginals: Sequence[tuple[str, ...]]) -> list[IntArray]:
        """Return the tables of ``count`` unsealed, for comparisons inside ``raw`` only."""
        for marginal in marginals:
            checks.require_table(self._domain, marginal)
        names = [name for marginal in marginals for name in marginal]
        return list(self._answer("count", tuple(marginals), cells=names))

    def grouped(self, groupings: Mapping[str, Grouping]) -> FoldCounter:
        """Return a counter of the same rows, with levels of some attributes merged into groups."""
        checks.require_groupings(self._domain, groupings)
        grouped = {name: g.of(self._domain[name]) for name, g in groupings.items()}
        return self._recoded(
            self._domain.with_attributes(grouped), BatchRecoding(groupings=groupings)
        )

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> FoldCounter:
        """Return a counter of the same rows with derived attributes."""
        checks.require_derived(self._domain, derived)
        attributes = tuple(attribute.as_attribute(name) for name, attribute in derived.items())
        domain = Domain((*self._domain, *attributes), self._domain.constraints)
        return self._recoded(domain, BatchRecoding(derived=derived))

    def _recoded(self, domain: Domain, recoding: BatchRecoding) -> FoldCounter:
        recodings = (*self._recodings, recoding)
        return FoldCounter(domain, self._fold, recodings=recodings, left_out=self._left_out)

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Return the key and the count of every non-empty cell, (m, 2)."""
        checks.require_cells(self._domain, attributes)
        return Sealed(*self._answer("occupied", attributes, cells=attributes))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Return the counts of a grid over the declared box, with ``cells`` cells on each axis."""
        checks.require_grid(self._domain, columns, cells)
        return Sealed(*self._answer("grid", columns, cells, axes=columns))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Return the total of clipped squared distances to the nearest centre, shape ().

        A row at squared distance D counts min(D, clip) >> shift."""
        checks.require_rule(self._domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return Sealed(*self._answer("distance_total", rule, clip, shift, axes=rule.columns))

    def children(self, tree: BitTree, queries: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        """Return, for each query (nodes, bits), a table of counts (nodes, 2^bits).

        It has the number of rows in every box ``bits`` levels below each node."""
        checks.require_tree(self._domain, tree)
        for nodes, bits in queries:
            checks.require_nodes(tree, nodes, bits)
            checks.require_size(len(nodes) << bits, of="counter")
        tables = self._answer("children", tree, tuple(queries), axes=tree.columns)
        return [Sealed(table) for table in tables]

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Return sizes and coordinate totals of the k clusters of each subset, (m, k, 1 + d).

        rules   the m rules, one for each subset; ``salt`` divides the rows into subsets
        """
        checks.require_subsets(self._domain, rules, salt)
        return Sealed(*self._answer("sum_by_centre", tuple(rules), salt, axes=rules[0].columns))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Return the total of clipped differences from the centre, by cluster and axis, (k, d)."""
        checks.require_rule(self._domain, rule)
        rule.require_radii(radii)
        return Sealed(*self._answer("residuals", rule, radii, axes=rule.columns))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Return the number of rows of each level of ``attribute`` in each cluster, (levels, k)."""
        checks.require_rule(self._domain, rule)
        checks.require_size(self._domain[attribute].size * len(rule.centres), of="counter")
        return Sealed(
            *self._answer("classify", rule, attribute, axes=rule.columns, cells=[attribute])
        )

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Return the numbers of rows that a rule predicts correctly and incorrectly, (2,)."""
        rule.require_exact(self._domain)
        return Sealed(*self._answer("mistakes", rule, cells=(*rule.columns, rule.target)))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Return the smallest and largest coordinate of every column, (2, d)."""
        checks.require_axes(self._domain, columns)
        return Sealed(*self._answer("bounds", columns, axes=columns))

    def records(self, columns: tuple[str, ...], limit: int, salt: int) -> Sealed:
        """Return the ``limit`` rows with the smallest hashes, (limit, d), padded with zeros."""
        checks.require_axes(self._domain, columns)
        (rows,) = self._answer("records", columns, limit, salt, axes=columns)
        records = np.zeros((limit, len(columns)), dtype=np.int64)
        records[: len(rows)] = rows
        return Sealed(records)

    def _answer(
        self, kind: str, *arguments: object, axes: Iterable[str] = (), cells: Iterable[str] = ()
    ) -> Answer:
        query = BatchQuery(kind, arguments, frozenset(axes), frozenset(cells), self._recodings)
        (answer,) = self._fold([query])
        if answer is not None:
            return answer
        column = np.zeros(0, dtype=np.int64)
        empty_batch = Batch(
            coordinates=dict.fromkeys(self._domain.numeric, column),
            codes=dict.fromkeys(self._domain.discrete, column),
            sizes={name: self._domain[name].size for name in self._domain.discrete},
            rows=0,
        )
        return empty_batch.answer(query)


class EmptyCounter(FoldCounter):
    """A counter of an empty table, for rehearsing queries.

    stages   stages of which a column was read
    """

    def __init__(self, domain: Domain) -> None:
        self.stages: frozenset[str] = frozenset()
        super().__init__(domain, self._record_stages)

    def _record_stages(self, queries: Sequence[BatchQuery]) -> Partial:
        self.stages = self.stages.union(*(query.stages for query in queries))
        return [None] * len(queries)

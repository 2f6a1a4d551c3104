"""FoldCounter: the queries of the gate as a fold over batches of rows, wherever these are.

An engine is one function: queries in, their answers about all rows out, in one scan. It counts
and does nothing else. Queries are checked here, by public numbers, before a row is read; noise,
charges and a release's plan never reach an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks
from dp_pipeline.gate.counter import MAX_GRID_CELLS, Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery, BatchRecoding, merge
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

Partial = list[Answer | None]
"""One answer a query; None where no row was read."""

Fold = Callable[[Sequence[BatchQuery]], Partial]
"""An engine: it answers every query about all rows, and reads each row once a query."""

RequireStages = Callable[[Collection[str] | None], None]
"""Raises Damaged unless the stored tables of some stages, of all for None, are as stored."""


def answer_batch(batch: Batch, queries: Sequence[BatchQuery]) -> Partial:
    """Return the answers of one batch, which is recoded once for queries of equal recodings."""
    if not batch.rows:
        return [None] * len(queries)
    # A list, because recodings hold mappings and so have no hash.
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
    """Return the answers about the rows of all partials together."""
    totals: Partial = [None] * len(queries)
    for partial in partials:
        for i, (query, answer) in enumerate(zip(queries, partial, strict=True)):
            total = totals[i]
            if answer is not None:
                totals[i] = answer if total is None else merge(query, total, answer)
    return totals


class FoldCounter:
    """Exact integers about prepared rows: ``Counter`` and ``Disclosing`` of ``gate.counter``, which
    say what each method returns. A query that could overflow or is none is refused by public
    numbers alone: BoundaryViolation, or DeclarationError for an attribute without cells.

    domain          the declared attributes
    fold            the engine
    recodings       how rows are recoded before a query, in order
    fingerprint     of the stored tables that are read, and of their reading; empty without any
    require_stages  checks these tables; None where there are none, or they were checked
    """

    def __init__(
        self,
        domain: Domain,
        fold: Fold,
        *,
        recodings: tuple[BatchRecoding, ...] = (),
        fingerprint: str = "",
        require_stages: RequireStages | None = None,
    ) -> None:
        self._domain, self._fold, self._recodings = domain, fold, recodings
        self.fingerprint, self._require_stages = fingerprint, require_stages

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._domain.names)} attributes)"

    @property
    def domain(self) -> Domain:
        """The declared attributes: public."""
        return self._domain

    def require_stored(self, rehearsed: object = None) -> None:
        """Raise Damaged where a stored table that a rehearsal would have read has changed. All
        others are checked before the first answer about them.

        rehearsed   an EmptyCounter; for anything else all tables are checked
        """
        if self._require_stages is not None:
            self._require_stages(rehearsed.stages if isinstance(rehearsed, EmptyCounter) else None)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """Return one table a marginal, in the order given; () is the number of rows, shape ()."""
        return [Sealed(table) for table in self.exact_tables(marginals)]

    def exact_tables(self, marginals: Sequence[tuple[str, ...]]) -> list[IntArray]:
        """Return what ``count`` seals. For comparisons inside ``raw`` only."""
        for marginal in marginals:
            checks.require_table(self._domain, marginal)
        names = [name for marginal in marginals for name in marginal]
        return list(self._answer("count", tuple(marginals), cells=names))

    def grouped(self, groupings: Mapping[str, Grouping]) -> FoldCounter:
        """Return the same rows where the levels of some attributes are put into groups."""
        checks.require_groupings(self._domain, groupings)
        grouped = {name: g.of(self._domain[name]) for name, g in groupings.items()}
        return self._recoded(
            self._domain.with_attributes(grouped), BatchRecoding(groupings=groupings)
        )

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> FoldCounter:
        """Return the same rows with derived attributes, each a byte or more a row."""
        checks.require_derived(self._domain, derived)
        attributes = tuple(attribute.as_attribute(name) for name, attribute in derived.items())
        domain = Domain((*self._domain, *attributes), self._domain.constraints)
        return self._recoded(domain, BatchRecoding(derived=derived))

    def _recoded(self, domain: Domain, recoding: BatchRecoding) -> FoldCounter:
        return FoldCounter(domain, self._fold, recodings=(*self._recodings, recoding))

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Return key and count of every cell with rows, (m, 2)."""
        checks.require_cells(self._domain, attributes)
        return Sealed(*self._answer("occupied", attributes, cells=attributes))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Return the counts of ``cells`` equal intervals an axis over the declared box."""
        checks.require_grid(self._domain, columns, cells)
        return Sealed(*self._answer("grid", columns, cells, axes=columns))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Return Σ over rows of min(D, clip) >> shift, shape ()."""
        checks.require_rule(self._domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return Sealed(*self._answer("distance_total", rule, clip, shift, axes=rule.columns))

    def children(self, tree: BitTree, queries: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        """Return for each query the rows in every box so many bits below each node, (m, 2^bits)."""
        checks.require_tree(self._domain, tree)
        for nodes, bits in queries:
            checks.require_nodes(tree, nodes, bits)
            _require_size(len(nodes) << bits)
        tables = self._answer("children", tree, tuple(queries), axes=tree.columns)
        return [Sealed(table) for table in tables]

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Return sizes and totals of the clusters of every subset, (m, k, 1 + d)."""
        checks.require_subsets(self._domain, rules, salt)
        return Sealed(*self._answer("sum_by_centre", tuple(rules), salt, axes=rules[0].columns))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Return the clipped residual totals of every cluster, (k, d)."""
        checks.require_rule(self._domain, rule)
        rule.require_radii(radii)
        return Sealed(*self._answer("residuals", rule, radii, axes=rule.columns))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Return the rows of every level of ``attribute`` in every cluster, (levels, k)."""
        checks.require_rule(self._domain, rule)
        _require_size(self._domain[attribute].size * len(rule.centres))
        return Sealed(
            *self._answer("classify", rule, attribute, axes=rule.columns, cells=[attribute])
        )

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Return the rows whose label the rule predicts, and the others, (2,)."""
        rule.require_exact(self._domain)
        return Sealed(*self._answer("mistakes", rule, cells=(*rule.columns, rule.target)))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Return the smallest and largest coordinate of every column, (2, d)."""
        checks.require_axes(self._domain, columns)
        return Sealed(*self._answer("bounds", columns, axes=columns))

    def records(self, columns: tuple[str, ...], limit: int, salt: int) -> Sealed:
        """Return the ``limit`` rows with the smallest hash, (limit, d), zeros behind the last."""
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
        return self._empty_batch().answer(query) if answer is None else answer

    def _empty_batch(self) -> Batch:
        column = np.zeros(0, dtype=np.int64)
        return Batch(
            coordinates=dict.fromkeys(self._domain.numeric, column),
            codes=dict.fromkeys(self._domain.discrete, column),
            sizes={name: self._domain[name].size for name in self._domain.discrete},
            rows=0,
        )


class EmptyCounter(FoldCounter):
    """The counter of an empty table, for rehearsing queries.

    stages   of which a column was read
    """

    def __init__(self, domain: Domain) -> None:
        self.stages: frozenset[str] = frozenset()
        super().__init__(domain, self._record_stages)

    def _record_stages(self, queries: Sequence[BatchQuery]) -> Partial:
        self.stages = self.stages.union(*(query.stages for query in queries))
        return [None] * len(queries)


def _require_size(cells: int) -> None:
    if cells > MAX_GRID_CELLS:
        raise BoundaryViolation(f"expected at most {MAX_GRID_CELLS} cells, got {cells}")

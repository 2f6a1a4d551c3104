"""The counter of the gate's queries, as a fold over batches of rows by any engine.

An engine is one function from a query to its answer about all rows, in one scan. Queries are
checked here, by public numbers, before a row is read. Noise and charges never reach an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.gate import checks
from dp_pipeline.gate.counter import Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery, Recoding, merge
from dp_pipeline.results.derived_attribute import Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

Fold = Callable[[BatchQuery], Answer | None]
"""An engine: query → its answer about all rows; None where there is no row."""


def answer_batch(batch: Batch, query: BatchQuery) -> Answer | None:
    """Return a batch's answer to a query; None for a batch without rows."""
    if not batch.rows:
        return None
    for recoding in query.recodings:
        batch = batch.recoded(recoding)
    return batch.answer(query)


def merge_answers(query: BatchQuery, answers: Iterable[Answer | None]) -> Answer | None:
    """Return the answer about all rows, merged from those about several batches.

    It is None where all of them are None, as there are no rows. Arrays of the given answers may be
    overwritten."""
    total = None
    for answer in answers:
        if answer is not None:
            total = answer if total is None else merge(query, total, answer)
    return total


class FoldCounter:
    """A counter that counts prepared rows exactly, batch by batch: a ``gate.counter.Counter``.

    domain          the declared attributes
    fold            the engine
    recodings       recodings of rows before a query, in order
    fingerprint     of the stored tables and of when they were read from the source; empty without,
                    and for recoded rows
    require_stages  raises Damaged unless the tables of some stages, for None of all, are as they
                    were stored; None where no table is stored or all were checked before,
                    and for recoded rows
    left_out        number of rows that preparation left out

    A query that is invalid or could overflow is refused by public numbers alone: BoundaryViolation,
    or DeclarationError for an attribute without cells.
    """

    def __init__(
        self,
        domain: Domain,
        fold: Fold,
        *,
        recodings: tuple[Recoding, ...] = (),
        fingerprint: str = "",
        require_stages: Callable[[Collection[str] | None], None] | None = None,
        left_out: int = 0,
    ) -> None:
        self.domain, self._fold, self._recodings = domain, fold, recodings
        self.fingerprint, self._require_stages = fingerprint, require_stages
        self._left_out = left_out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.domain.names)} attributes)"

    def require_stored(self, rehearsed: object = None) -> None:
        """Raise Damaged if a stored table that a rehearsal has queried is not as it was stored.

        rehearsed   the EmptyCounter of the rehearsal; of any other object all tables are checked

        Other tables are checked before their first answer.
        """
        if self._require_stages is not None:
            self._require_stages(rehearsed.stages if isinstance(rehearsed, EmptyCounter) else None)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        for marginal in marginals:
            checks.require_table(self.domain, marginal)
        names = [name for marginal in marginals for name in marginal]
        return [Sealed(table) for table in self._answer("count", tuple(marginals), cells=names)]

    def count_left_out(self) -> Sealed:
        return Sealed(np.array(self._left_out, dtype=np.int64))

    def recoded(self, derived: Recoding, domain: Domain) -> FoldCounter:
        groupings = {n: Grouping(d.groups) for n, d in derived.items() if d.attributes == (n,)}
        checks.require_groupings(self.domain, groupings)
        from_several = {name: each for name, each in derived.items() if name not in groupings}
        checks.require_derived(self.domain, from_several)
        return self._recoded(derived, domain)

    def _recoded(self, derived: Recoding, domain: Domain) -> FoldCounter:
        recodings = (*self._recodings, derived)
        return FoldCounter(domain, self._fold, recodings=recodings, left_out=self._left_out)

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        checks.require_cells(self.domain, attributes)
        return Sealed(*self._answer("occupied", attributes, cells=attributes))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        checks.require_grid(self.domain, columns, cells)
        return Sealed(*self._answer("grid", columns, cells, axes=columns))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        checks.require_rule(self.domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return Sealed(*self._answer("distance_total", rule, clip, shift, axes=rule.columns))

    def children(self, tree: BitTree, queries: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        checks.require_tree(self.domain, tree)
        for nodes, bits in queries:
            checks.require_nodes(tree, nodes, bits)
        tables = self._answer("children", tree, tuple(queries), axes=tree.columns)
        return [Sealed(table) for table in tables]

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        checks.require_subsets(self.domain, rules, salt)
        return Sealed(*self._answer("sum_by_centre", tuple(rules), salt, axes=rules[0].columns))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        checks.require_rule(self.domain, rule)
        rule.require_radii(radii)
        return Sealed(*self._answer("residuals", rule, radii, axes=rule.columns))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        checks.require_classes(self.domain, rule, attribute)
        return Sealed(
            *self._answer("classify", rule, attribute, axes=rule.columns, cells=[attribute])
        )

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        rule.require_exact(self.domain)
        return Sealed(*self._answer("mistakes", rule, cells=(*rule.columns, rule.target)))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        checks.require_axes(self.domain, columns)
        return Sealed(*self._answer("bounds", columns, axes=columns))

    def records(self, columns: tuple[str, ...], limit: int, salt: int) -> Sealed:
        checks.require_axes(self.domain, columns)
        (rows,) = self._answer("records", columns, limit, salt, axes=columns)
        records = np.zeros((limit, len(columns)), dtype=np.int64)
        records[: len(rows)] = rows
        return Sealed(records)

    def _answer(
        self, kind: str, *arguments: object, axes: Iterable[str] = (), cells: Iterable[str] = ()
    ) -> Answer:
        query = BatchQuery(kind, arguments, frozenset(axes), frozenset(cells), self._recodings)
        answer = self._fold(query)
        if answer is not None:
            return answer
        column = np.zeros(0, dtype=np.int64)
        empty_batch = Batch(
            coordinates=dict.fromkeys(self.domain.numeric, column),
            codes=dict.fromkeys(self.domain.discrete, column),
            sizes={name: self.domain[name].size for name in self.domain.discrete},
            rows=0,
        )
        return empty_batch.answer(query)


class EmptyCounter(FoldCounter):
    """A counter of an empty table, for rehearsing queries.

    stages   names of the stored tables of which the queries so far would read a column
    """

    def __init__(self, domain: Domain) -> None:
        self.stages: frozenset[str] = frozenset()
        super().__init__(domain, self._record_stages)

    def _record_stages(self, query: BatchQuery) -> None:
        self.stages |= query.stages

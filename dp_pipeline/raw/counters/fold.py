"""FoldCounter: every question of the gate, as a fold over batches of rows, wherever they are.

An engine is one function: a list of questions in, their answers about all rows out, in one scan.
It counts and does nothing else. Questions are checked here, by what is public, before any row is
looked at; noise, charges and what a release has planned never reach an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks
from dp_pipeline.gate.counter import MOST_GRID_CELLS, Sealed
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.raw.counters.batch import Answer, Batch, BatchQuery, BatchRecoding, joined
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.trees import BitTree, Prefixes

Partial = list[Answer | None]
"""One answer a question; None where no row was looked at."""

Fold = Callable[[Sequence[BatchQuery]], Partial]
"""An engine: every question about all rows, each row looked at once a question."""

Require = Callable[[Collection[str] | None], None]
"""Damaged unless the stored tables of some stages, of all for None, are as they were stored."""


def answered(batch: Batch, questions: Sequence[BatchQuery]) -> Partial:
    """The answers of one batch, which is recoded once for the questions that agree on how."""
    if not batch.rows:
        return [None] * len(questions)
    known: list[tuple[tuple[BatchRecoding, ...], Batch]] = [((), batch)]
    answers: Partial = []
    for question in questions:
        found = next((rows for how, rows in known if how == question.recodings), None)
        if found is None:
            found = batch
            for recoding in question.recodings:
                found = found.recoded(recoding)
            known.append((question.recodings, found))
        answers.append(found.answer(question))
    return answers


def added(questions: Sequence[BatchQuery], partials: Iterable[Partial]) -> Partial:
    """The answers about the rows of all partials together."""
    totals: Partial = [None] * len(questions)
    for partial in partials:
        for at, (question, one) in enumerate(zip(questions, partial, strict=True)):
            before = totals[at]
            if one is not None:
                totals[at] = one if before is None else joined(question, before, one)
    return totals


class FoldCounter:
    """Exact whole numbers about prepared rows: ``Counter`` and ``Disclosing`` of ``gate.counter``.

    domain        the declared attributes
    fold          the engine
    recodings     what is done to rows before they are looked at, in order
    fingerprint   of the stored tables that the columns are read from, and of their reading;
                  empty where there are none
    require       checks them; None where there are none, or where that was done
    """

    def __init__(
        self,
        domain: Domain,
        fold: Fold,
        *,
        recodings: tuple[BatchRecoding, ...] = (),
        fingerprint: str = "",
        require: Require | None = None,
    ) -> None:
        self._domain, self._fold, self._recodings = domain, fold, recodings
        self.fingerprint, self._require = fingerprint, require

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._domain.names)} attributes)"

    @property
    def domain(self) -> Domain:
        """The declared attributes: public."""
        return self._domain

    def require_stored(self, rehearsed: object = None) -> None:
        """Damaged where a stored table that a rehearsal would have read is not as it was stored.
        Whatever it would not have read is checked before the first answer about it.

        rehearsed   over nobody's rows; of any other, and where there is none, all tables
        """
        if self._require is not None:
            self._require(rehearsed.stages if isinstance(rehearsed, EmptyCounter) else None)

    def count(self, marginals: Sequence[tuple[str, ...]]) -> list[Sealed]:
        """One table a marginal, in the order asked; () is the number of rows, shape ().

        BoundaryViolation for an attribute twice in one marginal and for more than
        MOST_GRID_CELLS cells; DeclarationError for an attribute without cells.
        """
        return [Sealed(table) for table in self.exact_tables(marginals)]

    def exact_tables(self, marginals: Sequence[tuple[str, ...]]) -> list[IntArray]:
        """What ``count`` seals. For comparisons inside ``raw`` only."""
        for marginal in marginals:
            checks.require_table(self._domain, marginal)
        names = [name for marginal in marginals for name in marginal]
        return list(self._answer("count", tuple(marginals), cells=names))

    def grouped(self, groupings: Mapping[str, Grouping]) -> FoldCounter:
        """The same rows where the levels of some attributes are groups; see ``Counter``.

        BoundaryViolation for what is no group of every level.
        """
        checks.require_groupings(self._domain, groupings)
        grouped = {name: one.of(self._domain[name]) for name, one in groupings.items()}
        return self._recoded(
            self._domain.with_attributes(grouped), BatchRecoding(groupings=groupings)
        )

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> FoldCounter:
        """The same rows with attributes more; see ``Counter``. A byte or more a row for each.

        BoundaryViolation for what others do not decide.
        """
        checks.require_derived(self._domain, derived)
        added = tuple(one.named(name) for name, one in derived.items())
        domain = Domain((*self._domain, *added), self._domain.constraints)
        return self._recoded(domain, BatchRecoding(derived=derived))

    def _recoded(self, domain: Domain, recoding: BatchRecoding) -> FoldCounter:
        return FoldCounter(domain, self._fold, recodings=(*self._recodings, recoding))

    def occupied(self, attributes: tuple[str, ...]) -> Sealed:
        """Key and count of every cell with rows, (m, 2); see ``Counter``.

        BoundaryViolation for no attribute, an attribute twice and more than 2^62 cells.
        """
        checks.require_cells(self._domain, attributes)
        return Sealed(*self._answer("occupied", attributes, cells=attributes))

    def grid(self, columns: tuple[str, ...], cells: int) -> Sealed:
        """Counts of ``cells`` equal intervals an axis over the declared box, all cells included.

        BoundaryViolation for no column, a column twice, no cells and more than MOST_GRID_CELLS.
        """
        checks.require_grid(self._domain, columns, cells)
        return Sealed(*self._answer("grid", columns, cells, axes=columns))

    def distance_total(self, rule: NearestCentre, *, clip: int, shift: int) -> Sealed:
        """Σ over rows of min(D, clip) >> shift, shape (); see ``gate.counter.Counter``.

        BoundaryViolation, from public numbers alone, for a rule that could overflow.
        """
        checks.require_rule(self._domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return Sealed(*self._answer("distance_total", rule, clip, shift, axes=rule.columns))

    def children(self, tree: BitTree, asked: Sequence[tuple[Prefixes, int]]) -> list[Sealed]:
        """Rows in every box so many bits below each node, (m, 2^bits) for each of those asked;
        see ``Counter``.

        BoundaryViolation for a tree or nodes that are none, and for more than MOST_GRID_CELLS
        boxes.
        """
        checks.require_tree(self._domain, tree)
        for nodes, bits in asked:
            checks.require_nodes(tree, nodes, bits)
            _require_size(len(nodes) << bits)
        found = self._answer("children", tree, tuple(asked), axes=tree.columns)
        return [Sealed(table) for table in found]

    def sum_by_centre(self, rules: Sequence[NearestCentre], *, salt: int) -> Sealed:
        """Sizes and totals of the clusters of every subset, shape (m, k, 1 + d); see ``Counter``.

        BoundaryViolation, from public numbers alone, for rules of different kinds.
        """
        checks.require_subsets(self._domain, rules, salt)
        return Sealed(*self._answer("sum_by_centre", tuple(rules), salt, axes=rules[0].columns))

    def residuals(self, rule: NearestCentre, radii: tuple[int, ...]) -> Sealed:
        """Clipped residual totals of every cluster, shape (k, d); see ``Counter``.

        BoundaryViolation, from public numbers alone, for radii that are not exact.
        """
        checks.require_rule(self._domain, rule)
        rule.require_radii(radii)
        return Sealed(*self._answer("residuals", rule, radii, axes=rule.columns))

    def classify(self, rule: NearestCentre, attribute: str) -> Sealed:
        """Rows of every level of ``attribute`` in every cluster, shape (levels, k).

        BoundaryViolation, from public numbers alone, for a rule that could overflow;
        DeclarationError for an attribute without cells.
        """
        checks.require_rule(self._domain, rule)
        _require_size(self._domain[attribute].size * len(rule.centres))
        return Sealed(
            *self._answer("classify", rule, attribute, axes=rule.columns, cells=[attribute])
        )

    def mistakes(self, rule: PredictedLabel) -> Sealed:
        """Rows that the rule answers rightly, and wrongly, shape (2,); see ``Counter``.

        BoundaryViolation, from public numbers alone, for a rule that is not exact;
        DeclarationError for an attribute without cells.
        """
        rule.require_exact(self._domain)
        return Sealed(*self._answer("mistakes", rule, cells=(*rule.columns, rule.target)))

    def bounds(self, columns: tuple[str, ...]) -> Sealed:
        """Smallest and largest coordinate of every column, (2, d); see ``Disclosing``."""
        checks.require_axes(self._domain, columns)
        return Sealed(*self._answer("bounds", columns, axes=columns))

    def records(self, columns: tuple[str, ...], many: int, salt: int) -> Sealed:
        """The ``many`` rows with the smallest content hash, (many, d), and zeros where there are
        fewer; see ``Disclosing``.
        """
        checks.require_axes(self._domain, columns)
        (found,) = self._answer("records", columns, many, salt, axes=columns)
        records = np.zeros((many, len(columns)), dtype=np.int64)
        records[: len(found)] = found
        return Sealed(records)

    def _answer(
        self, kind: str, *arguments: object, axes: Iterable[str] = (), cells: Iterable[str] = ()
    ) -> Answer:
        question = BatchQuery(kind, arguments, frozenset(axes), frozenset(cells), self._recodings)
        (answer,) = self._fold([question])
        return self._of_nobody(question) if answer is None else answer

    def _of_nobody(self, question: BatchQuery) -> Answer:
        """The answer where there is no row."""
        nothing = np.zeros(0, dtype=np.int64)
        return Batch(
            coordinates=dict.fromkeys(self._domain.numeric, nothing),
            codes=dict.fromkeys(self._domain.discrete, nothing),
            sizes={name: self._domain[name].size for name in self._domain.discrete},
            rows=0,
        ).answer(question)


class EmptyCounter(FoldCounter):
    """The counter of an empty table, for a rehearsal of what is asked.

    stages   of which a column was asked for
    """

    def __init__(self, domain: Domain) -> None:
        self.stages: frozenset[str] = frozenset()
        super().__init__(domain, self._noted)

    def _noted(self, questions: Sequence[BatchQuery]) -> Partial:
        self.stages = self.stages.union(*(one.stages for one in questions))
        return [None] * len(questions)


def _require_size(cells: int) -> None:
    if cells > MOST_GRID_CELLS:
        raise BoundaryViolation(f"expected at most {MOST_GRID_CELLS} cells, got {cells}")

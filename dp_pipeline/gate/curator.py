"""Curator: a private model gets it in place of rows. It asks, and pays for every answer.

Every question stands here with the proof of its sensitivity: ⊕ begins the effect of one more row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain, Relation
from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks, mechanisms
from dp_pipeline.gate.charge import (
    CachedScan,
    CounterQuery,
    NoisyQuery,
    QueryExecutor,
    QuestionKey,
    digest_of,
)
from dp_pipeline.gate.counter import MAX_GRID_CELLS, Counter, Disclosing, Sealed
from dp_pipeline.gate.noise import NoiseSource, checked_scale
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.gate.scores import PUBLIC_ROW_SCORES, Score
from dp_pipeline.gate.selection import Candidates, ScoreSession
from dp_pipeline.gate.trees import NodeLevels, SplitSession, TreeSession, split_scale
from dp_pipeline.results.accountant import (
    GAUSSIAN,
    TREE_PATHS,
    Accountant,
    Disclosure,
    Spend,
    biased_splits,
)
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.measurement import (
    SHARES,
    NoisyClusters,
    NoisyGrid,
    NoisyMarginal,
    NoisyNodes,
    SparseTable,
)
from dp_pipeline.results.transcript import AnswerRecord, Transcript
from dp_pipeline.results.trees import BitTree, Nodes, Prefixes


@dataclass(frozen=True)
class PaidMarginal:
    """A marginal that was measured.

    amount   what was paid for it in all, in the currency of its release
    scale    at which its discrete Laplace noise was drawn; None: it is Gaussian
    """

    marginal: NoisyMarginal
    amount: Fraction
    scale: Fraction | None


PaidMarginals = dict[tuple[tuple[str, ...], Names], PaidMarginal]
"""Digests of how the rows were recoded, and attributes → the last answer."""


class Curator:
    """The only way from a model to the rows: tables, places in the declared box, released centres
    and released classifiers.

    Each question goes the same way (``QueryExecutor``): charge; look up the transcript; only when
    the answer was never drawn, count the rows, add noise, store; then return it. What is disclosed
    without noise, on benchmarks alone, is recorded in the place of a charge.

    counter, accountant, transcript, noise, recoding   as of ``QueryExecutor``
    domain       declared attributes, public
    distance     rows that two neighbouring data sets differ by, at most
    benchmark    whether the rows are public: only then may anything be disclosed
    relation     what neighbouring data sets are; ``distance`` is the one under it
    paid_marginals   marginals that were measured of these very rows and may be refined here: those
                 of a release that this one refines, which nothing else refines; None: none
    """

    def __init__(  # noqa: PLR0913
        self,
        counter: Counter | None,
        *,
        domain: Domain,
        distance: int,
        accountant: Accountant,
        transcript: Transcript,
        noise: NoiseSource,
        benchmark: bool = False,
        relation: Relation = "add_remove",
        recoding: tuple[str, ...] = (),
        paid_marginals: PaidMarginals | None = None,
    ) -> None:
        self._domain, self._distance = domain, distance
        self._benchmark, self._relation = benchmark, relation
        self._executor = QueryExecutor(counter, accountant, transcript, noise, recoding)
        self._paid_marginals: PaidMarginals = {} if paid_marginals is None else paid_marginals

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._domain

    @property
    def distance(self) -> int:
        """Rows that two neighbouring data sets differ by, at most; fixed once it is made."""
        return self._distance

    @property
    def accountant(self) -> Accountant:
        """What this release may spend, and has spent."""
        return self._executor.accountant

    @property
    def currency(self) -> Currency:
        """What an amount is counted in: ε, or ρ."""
        return self._executor.currency

    def __repr__(self) -> str:
        attributes = len(self.domain.names)
        return f"{type(self).__name__}({attributes} attributes, distance {self.distance})"

    def grouped(self, groupings: Mapping[str, Grouping]) -> Curator:
        """Return the same curator of tables where levels of some attributes are released groups.

        groupings   attribute → the group of each of its levels; the others stay as they are

        Every row is recoded by itself, so a row more is a row more: all proofs hold as they are.
        """
        checks.require_groupings(self._domain, groupings)
        grouped = {name: grouping.of(self._domain[name]) for name, grouping in groupings.items()}
        # Constraints are about levels, and none of these attributes has them any more.
        domain = Domain(self._domain.with_attributes(grouped).attributes)
        rows = self._executor.counter
        counter = None if rows is None else rows.grouped(groupings)
        return self._recoded(counter, domain, ("groups", groupings))

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Curator:
        """Return the same curator of rows with more attributes, made of what is public or was
        released: same accountant, same transcript.

        derived   name → which others decide it, and how; the others stay as they are

        As for groups: every row is recoded by itself, so a row more is a row more.
        """
        checks.require_derived(self._domain, derived)
        added = tuple(attribute.as_attribute(name) for name, attribute in derived.items())
        rows = self._executor.counter
        counter = None if rows is None else rows.with_attributes(derived)
        domain = Domain((*self._domain, *added), self._domain.constraints)
        return self._recoded(counter, domain, ("derived attributes", derived))

    def _recoded(
        self, counter: Counter | None, domain: Domain, description: QuestionKey
    ) -> Curator:
        """Return the same curator of recoded rows; the transcript's questions name the recoding."""
        executor = self._executor
        return Curator(
            counter,
            domain=domain,
            distance=self._distance,
            accountant=executor.accountant,
            transcript=executor.transcript,
            noise=executor.noise,
            benchmark=self._benchmark,
            relation=self._relation,
            recoding=(*executor.recoding, digest_of(description)),
            paid_marginals=self._paid_marginals,
        )

    def _laplace(
        self,
        words: str,
        key: QuestionKey,
        count: CounterQuery[Counter],
        *,
        l1_per_row: int = 1,
        epsilon: Fraction,
    ) -> IntArray:
        """Charge for a question, and return its answer with Laplace noise."""
        query = self._executor.laplace_query(words, l1=l1_per_row * self.distance, epsilon=epsilon)
        self.accountant.charge(query.spend)
        return self._executor.answer(query, key, count)

    def measure(self, attributes: Names, *, epsilon: Fraction) -> NoisyMarginal:
        """Return the marginal over ``attributes``, every cell noisy; () is the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        checks.require_table(self.domain, attributes)
        query = self._executor.laplace_query(_words(attributes), l1=self.distance, epsilon=epsilon)
        return self._marginals({attributes: query})[0]

    def tabulate(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Return many marginals in one scan, each for its own amount of the release's currency.

        amounts   attributes → ε or ρ; () is the number of rows. Answers are in this order.

        A charge each, all of them before the rows are counted. ⊕ one row is in one cell of every
        table: Δ1 = Δ2 = 1 a row, with discrete Laplace noise for an ε, Gaussian for a ρ.
        """
        for attributes in amounts:
            checks.require_table(self.domain, attributes)
        l1, l2_squared = self.distance, self.distance**2
        return self._marginals(
            {
                names: self._executor.vector_query(
                    _words(names), l1=l1, l2_squared=l2_squared, amount=amount
                )
                for names, amount in amounts.items()
            }
        )

    def _scale(self, epsilon: Fraction) -> Fraction:
        """Return the scale of the noise on counts that one row moves by 1."""
        return mechanisms.laplace_scale(l1=self.distance, epsilon=epsilon)

    def _marginals(self, queries: Mapping[Names, NoisyQuery]) -> tuple[NoisyMarginal, ...]:
        keys = {names: ("marginal", names) for names in queries}
        marginals = []
        for names, record in self._count_all(queries, keys).items():
            spend = queries[names].spend
            table = record.answer.reshape(self.domain.shape(names))
            marginal = NoisyMarginal(names, table, spend.scale, spend.mechanism == GAUSSIAN)
            self._remember(marginal, spend.epsilon, record.scale)
            marginals.append(marginal)
        return tuple(marginals)

    def _count_all(
        self, queries: Mapping[Names, NoisyQuery], keys: Mapping[Names, QuestionKey]
    ) -> dict[Names, AnswerRecord]:
        """Charge for tables together, and answer each from one scan."""
        self.accountant.charge(*(query.spend for query in queries.values()))
        scan = CachedScan(lambda counter: counter.count(list(queries)))
        records = {}
        for position, (names, query) in enumerate(queries.items()):

            def count(counter: Counter, position: int = position) -> IntArray:
                return scan(counter)[position].open_at_the_gate()

            records[names] = self._executor.answer_record(query, keys[names], count)
        return records

    def refine(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Return marginals that were measured, with less noise, for more of the currency each.

        amounts   attributes → ε or ρ that is added to what was paid for them; answers in this order

        A charge each of what is added, all of them before the rows are counted. A marginal that was
        measured for e and refined for f more has about the noise of one that is measured for e + f,
        and both answers together cost e + f. In ε, exactly so: ``mechanisms.refine``; Δ1 = 1 a row,
        as before. In ρ it is measured once more, and the mean by precisions, which is
        post-processing, has the variance of σ² at e + f, and what rounding adds.
        The refined answer is the last one that was drawn, whatever a model says of it.
        BoundaryViolation for a marginal that was not measured.
        """
        earlier = {names: self._last_answer(names) for names in amounts}
        if self.currency != PURE:
            return self._measured_again(amounts, earlier)
        queries, keys = {}, {}
        for names, epsilon in amounts.items():
            first = earlier[names]
            queries[names] = self._executor.refinement_query(
                f"{_words(names)}, refined",
                l1=self.distance,
                before=first.amount,
                scale=first.scale or Fraction(0),
                epsilon=epsilon,
                first=first.marginal.table,
            )
            arguments = (names, first.amount, first.scale, first.marginal.table)
            keys[names] = ("refined marginal", *arguments)
        marginals = []
        for names, record in self._count_all(queries, keys).items():
            table = record.answer.reshape(earlier[names].marginal.table.shape)
            total = earlier[names].amount + amounts[names]
            marginals.append(NoisyMarginal(names, table, self._scale(total)))
            self._remember(marginals[-1], total, record.scale)
        return tuple(marginals)

    def _measured_again(
        self, amounts: Mapping[Names, Fraction], earlier: Mapping[Names, PaidMarginal]
    ) -> tuple[NoisyMarginal, ...]:
        """Return marginals in ρ, each the mean of what is known and one more measurement."""
        marginals = []
        for again in self.tabulate(amounts):
            first = earlier[again.attributes]
            marginals.append(first.marginal.averaged(again))
            self._remember(marginals[-1], first.amount + amounts[again.attributes], None)
        return tuple(marginals)

    def _remember(self, marginal: NoisyMarginal, amount: Fraction, scale: Fraction | None) -> None:
        # As a copy: whatever a model writes into its own changes nothing.
        copy = replace(marginal, table=marginal.table.copy())
        key = self._executor.recoding, marginal.attributes
        self._paid_marginals[key] = PaidMarginal(copy, amount, scale)

    def _last_answer(self, names: Names) -> PaidMarginal:
        """Return the last answer about a marginal, and what was paid for it."""
        last = self._paid_marginals.get((self._executor.recoding, names))
        if last is None or (last.scale is None) != (self.currency != PURE):
            got = "one that was not measured" if last is None else "one in another currency"
            raise BoundaryViolation(f"refine: expected a marginal that was measured, got {got}")
        return last

    def choose(self, words: str, candidates: Mapping[Names, Score], *, epsilon: Fraction) -> Names:
        """Return the attributes whose table has a nearly highest score, for an amount of the
        release's currency. No score moves by more than the largest Δ∞ among them, at this distance.
        """
        return self.open_scores(candidates).choose(words, tuple(candidates), amount=epsilon)

    def open_scores(self, candidates: Mapping[Names, Score]) -> ScoreSession:
        """Open scores of tables, for as many paid questions as wanted; this costs nothing.

        Proofs: ``gate.scores``, ``ScoreSession``. BoundaryViolation for a score that needs
        ``public_rows`` where there are none.
        """
        if any(isinstance(score, PUBLIC_ROW_SCORES) for score in candidates.values()):
            self._require_public_rows("scores")
        proven = Candidates(candidates, domain=self.domain, distance=self.distance)
        return ScoreSession(proven, self._executor)

    def public_rows(self) -> int:
        """Return the number of rows, where neighbours have the same: free, and recorded.

        Under ``replace_one``, where a person is one row, n is a function of what is public: a
        neighbour has another row, not one more. This is about prepared rows: a replaced row
        that preparation would drop makes no neighbour. So on benchmark rows alone;
        BoundaryViolation before any other rows are counted.
        """
        self._require_public_rows("number of rows")
        return int(
            self._executor.answer_without_noise(
                "public, not noisy: number of rows",
                ("public number of rows",),
                lambda counter: counter.count([()])[0].open_at_the_gate(),
            )
        )

    def _require_public_rows(self, question: str) -> None:
        if not self._benchmark or self._relation != "replace_one" or self.distance != 2:
            raise BoundaryViolation(
                f"{question}: expected benchmark rows under replace_one with one row a person, "
                "where the number of rows is public, got others"
            )

    def measure_marginal_error(
        self, released: dict[Names, IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Return ⌊Σ over m marginals of Σ over cells of |2^16·c − n·q| / 2^s⌋, noisy; shape ().

        released   attributes → int64 q ≥ 0 of the marginal's shape, Σ q = 2^16

        s = ``error_shift(m)``, so that the total of less than 2^37 rows stays below 2^63.
        ⊕ one more row changes c in one cell by 1 and n by 1, so one marginal's sum by at
        most 2^16 + Σ q = 2^17, the sum of all by m · 2^17, and its whole part of 2^s by no more
        than that in parts: m · 2^17 is a whole number of them, as s ≤ 17.
        """
        checks.require_released(self.domain, released)
        shift = error_shift(len(released))

        def exact(counter: Counter) -> IntArray:
            tables = counter.count(list(released))
            total = 0
            for q, sealed in zip(released.values(), tables, strict=True):
                counts = sealed.open_at_the_gate()
                total += int(np.abs((counts << 16) - counts.sum() * q).sum())
            return np.array(total >> shift, dtype=np.int64)

        return self._laplace(
            f"error of {len(released)} released marginals",
            ("error of marginals", released),
            exact,
            l1_per_row=(len(released) << 17) >> shift,
            epsilon=epsilon,
        )

    def sparse_table(
        self, attributes: tuple[str, ...], *, threshold: int, epsilon: Fraction
    ) -> SparseTable:
        """Return all cells over ``attributes`` with a noisy count of at least ``threshold``.

        attributes   one or more, with at most 2^62 cells together
        threshold    whole, at least 1; at most 2^20 empty cells may be expected to reach it

        ⊕ one row is in one cell of the table: Δ1 = 1 a row, for noise on *every* cell. That
        only those above the threshold are kept is post-processing, and that the others are
        never drawn one by one changes no probability (``gate.samplers``). Hence ε.
        BoundaryViolation for anything else, from public numbers alone.
        """
        words = f"cells of {', '.join(attributes)} from {threshold} rows on"
        spend = self._executor.laplace_query(words, l1=self.distance, epsilon=epsilon).spend
        cells = checks.require_sparse(
            self.domain, attributes, threshold=threshold, scale=spend.scale
        )
        noise = self._executor.noise

        def make_noisy(occupied: IntArray) -> IntArray:
            return noise.sparse_laplace(occupied, spend.scale, cells=cells, threshold=threshold)

        cells_above = self._executor.charge_and_answer(
            NoisyQuery(spend, make_noisy),
            ("sparse table", attributes, threshold),
            lambda counter: counter.occupied(attributes).open_at_the_gate(),
        )
        shape = self.domain.shape(attributes)
        return SparseTable(attributes, shape, cells_above, threshold, spend.scale)

    @cached_property
    def _levels(self) -> NodeLevels:
        return NodeLevels()

    def measure_grid(self, columns: tuple[str, ...], *, cells: int, epsilon: Fraction) -> NoisyGrid:
        """Return counts of ``cells`` equal intervals an axis over the declared box.

        ⊕ one row is in one cell, empty cells are measured too: Δ1 = 1 a row.
        """
        checks.require_grid(self.domain, columns, cells)
        table = self._laplace(
            f"grid of {cells} cells an axis over {', '.join(columns)}",
            ("grid", columns, cells),
            lambda counter: counter.grid(columns, cells).open_at_the_gate(),
            epsilon=epsilon,
        )
        shape = (cells,) * len(columns)
        return NoisyGrid(columns, table.reshape(shape), self._scale(epsilon))

    def measure_nodes(
        self, columns: tuple[str, ...], nodes: Nodes, *, depth: int, epsilon: Fraction
    ) -> NoisyNodes:
        """Return counts of tree nodes of heights up to ``depth``, the finest that the model needs.

        ⊕ the nodes are disjoint, checked here, so one row is in at most one: Δ1 = 1 a row.
        No nodes at all is a measure too: charged, recorded, empty.
        """
        checks.require_grid(self.domain, columns, 1 << depth if depth >= 0 else 0)
        if not nodes.are_disjoint(len(columns), depth):
            raise BoundaryViolation("tree measure: expected disjoint nodes, got overlapping ones")
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(columns)}, depth {depth}",
            ("nodes", columns, nodes.heights, nodes.cells),
            lambda counter: self._levels.counts(counter, columns, nodes, depth),
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def measure_boxes(self, tree: BitTree, nodes: Prefixes, *, epsilon: Fraction) -> NoisyNodes:
        """Return counts of disjoint nodes of a binary tree.

        ⊕ the nodes are disjoint, checked here, so one row is in at most one: Δ1 = 1 a row.
        """
        checks.require_tree(self.domain, tree)
        checks.require_nodes(tree, nodes, 0)
        if not nodes.are_disjoint():
            raise BoundaryViolation("tree measure: expected disjoint nodes, got overlapping ones")
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(tree.columns)}",
            ("boxes", tree, nodes),
            lambda counter: counter.children(tree, [(nodes, 0)])[0].open_at_the_gate()[:, 0],
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def open_tree(self, tree: BitTree, *, epsilon: Fraction) -> TreeSession:
        """Open a tree whose every root-to-leaf path spends ``epsilon``; charged now.

        The release is refused while a path has something left. Proof: ``TreeSession``.
        """
        checks.require_tree(self.domain, tree)
        scale = self._scale(epsilon)
        # The largest scale that the session may be asked for: what cannot be drawn is not charged.
        checked_scale(scale * SHARES)
        words = f"tree over {', '.join(tree.columns)}"
        spend = Spend(words, TREE_PATHS, epsilon, self.distance, scale)
        session = TreeSession(tree, spend, self._executor)
        self.accountant.charge(spend, require_complete=session.close)
        return session

    def open_splits(self, tree: BitTree, *, bits: int, epsilon: Fraction) -> SplitSession:
        """Open the splits of a 2^bits-way tree, however deep, for ``epsilon``; charged now.

        Proof: ``SplitSession``.
        """
        checks.require_tree(self.domain, tree)
        checks.require_fan(bits)
        fan = 1 << bits
        scale = checked_scale(split_scale(fan=fan, distance=self.distance, epsilon=epsilon))
        words = f"splits over {', '.join(tree.columns)}"
        spend = Spend(words, biased_splits(fan), epsilon, self.distance, scale)
        self.accountant.charge(spend)
        return SplitSession(tree, spend, self._executor, bits=bits)

    def measure_distance(
        self, rule: NearestCentre, *, clip: int, shift: int, epsilon: Fraction
    ) -> IntArray:
        """Return Σ min(D, clip) >> shift over the rows, noisy; shape ().

        ⊕ one row adds a whole number in 0..clip >> shift: Δ1 = clip >> shift a row.
        """
        checks.require_rule(self.domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return self._laplace(
            f"clipped squared distance to {len(rule.centres)} released centres, "
            f"clip {clip} shift {shift}",
            ("distance", rule, clip, shift),
            lambda counter: counter.distance_total(rule, clip=clip, shift=shift).open_at_the_gate(),
            l1_per_row=clip >> shift,
            epsilon=epsilon,
        )

    def measure_clusters(
        self,
        rules: Sequence[NearestCentre],
        *,
        sizes_epsilon: Fraction,
        totals_epsilon: Fraction,
        salt: int = 0,
    ) -> NoisyClusters:
        """Return sizes and totals of the clusters of every subset: two measures, one scan.

        rules   one a subset; one alone takes every row. Rows go to subsets by a hash.

        ⊕ one row is in one subset and one cluster: Δ1 = 1 a row for the sizes, and
        Σ|q| ≤ d·2^16 for the totals. Two units, so two measures, both charged first.
        """
        checks.require_subsets(self.domain, rules, salt)
        d, distance = len(rules[0].columns), self.distance
        words = f"of {len(rules)} × {len(rules[0].centres)} clusters"
        executor = self._executor
        size_query = executor.laplace_query(f"sizes {words}", l1=distance, epsilon=sizes_epsilon)
        total_query = executor.laplace_query(
            f"totals {words}", l1=(d << COORDINATE_BITS) * distance, epsilon=totals_epsilon
        )
        self.accountant.charge(size_query.spend, total_query.spend)
        scan = CachedScan(lambda counter: counter.sum_by_centre(rules, salt=salt))
        arguments = (tuple(rules), salt)
        sizes = executor.answer(
            size_query,
            ("sizes of clusters", *arguments),
            lambda counter: scan(counter).open_at_the_gate()[..., 0],
        )
        totals = executor.answer(
            total_query,
            ("totals of clusters", *arguments),
            lambda counter: scan(counter).open_at_the_gate()[..., 1:],
        )
        return NoisyClusters(sizes, totals, size_query.spend.scale, total_query.spend.scale)

    def measure_residuals(
        self, rule: NearestCentre, radii: tuple[int, ...], *, epsilon: Fraction
    ) -> IntArray:
        """Return clipped residual totals of every cluster, noisy, (k, d); one radius is 2^16.

        ⊕ one row is in one cluster and adds at most 2^16 in L1 (rounded towards zero).
        """
        checks.require_rule(self.domain, rule)
        rule.require_radii(radii)
        return self._laplace(
            f"residuals of {len(rule.centres)} clusters",
            ("residuals", rule, radii),
            lambda counter: counter.residuals(rule, radii).open_at_the_gate(),
            l1_per_row=1 << COORDINATE_BITS,
            epsilon=epsilon,
        )

    def measure_classes(
        self, rule: NearestCentre, attribute: str, *, epsilon: Fraction
    ) -> IntArray:
        """Return rows of every level of ``attribute`` in every cluster, noisy, (levels, k).

        ⊕ one row has one level and one nearest centre: Δ1 = 1 a row.
        """
        checks.require_classes(self.domain, rule, attribute)
        return self._laplace(
            f"levels of {attribute} in {len(rule.centres)} clusters",
            ("levels in clusters", rule, attribute),
            lambda counter: counter.classify(rule, attribute).open_at_the_gate(),
            epsilon=epsilon,
        )

    def measure_mistakes(self, rule: PredictedLabel, *, epsilon: Fraction) -> IntArray:
        """Return the rows that the rule predicts rightly and wrongly, noisy, (2,).

        The gate learns nothing: the rule is fixed before the rows are counted.
        ⊕ one row is predicted rightly or wrongly: Δ1 = 1 a row.
        """
        rule.require_exact(self.domain)
        return self._laplace(
            f"right and wrong predictions of {rule.target}",
            ("mistakes", rule),
            lambda counter: counter.mistakes(rule).open_at_the_gate(),
            epsilon=epsilon,
        )

    def disclose_bounds(self, columns: tuple[str, ...], *, reason: str) -> IntArray:
        """Return the smallest and largest fixed-point coordinate of every column, (2, d); the
        declared box where there are no rows.
        """
        checks.require_axes(self.domain, columns)
        words = f"smallest and largest of {', '.join(columns)}"
        key = ("bounds", columns)
        return self._disclosed(words, key, reason, lambda counter: counter.bounds(columns))

    def disclose_records(
        self, columns: tuple[str, ...], many: int, salt: int, *, reason: str
    ) -> IntArray:
        """Return coordinates of ``many`` rows sampled by a hash of their content, (many, d); the
        middle of the box where there are fewer.

        salt   public, 0 … 2^63 − 1
        """
        checks.require_axes(self.domain, columns)
        if not (1 <= many <= MAX_GRID_CELLS and 0 <= salt < 1 << 63):
            raise BoundaryViolation(
                f"records: expected 1 to {MAX_GRID_CELLS} of them and a salt in 0..2^63 − 1"
            )
        words = f"{many} records of {', '.join(columns)}, salt {salt}"
        key = ("records", columns, many, salt)
        return self._disclosed(
            words, key, reason, lambda counter: counter.records(columns, many, salt)
        )

    def _disclosed(
        self, words: str, key: QuestionKey, reason: str, exact_query: Callable[[Disclosing], Sealed]
    ) -> IntArray:
        if not self._benchmark:
            raise BoundaryViolation(f"{words}: expected benchmark rows, got rows to be protected")
        self.accountant.disclose(Disclosure(words, reason))

        def exact(counter: Counter) -> IntArray:
            if not isinstance(counter, Disclosing):
                raise BoundaryViolation(f"{words}: expected an engine that discloses, got another")
            return exact_query(counter).open_at_the_gate()

        return self._executor.answer_without_noise(f"disclosed without noise: {words}", key, exact)


def error_shift(marginals: int) -> int:
    """Return the bits by which the error of so many marginals is coarser: one row's part of it is
    then at most 2^26.

    >>> error_shift(511), error_shift(512), error_shift(2000)
    (0, 1, 2)
    """
    return max(0, marginals.bit_length() - 9)


def _words(attributes: Names) -> str:
    return f"marginal of {', '.join(attributes)}" if attributes else "number of rows"

"""The questions that a private model may ask of the rows, each with the proof of its sensitivity.

In a proof, ⊕ stands before the effect of one row more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import SIZE, Domain, Relation
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
from dp_pipeline.gate.parts import PartsCounter
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
    NoisyNumber,
    SparseTable,
)
from dp_pipeline.results.transcript import AnswerRecord, Transcript
from dp_pipeline.results.trees import BitTree, Nodes, Prefixes


@dataclass(frozen=True)
class PaidMarginal:
    """A measured marginal with its price.

    amount   ε or ρ that was paid for it in all
    scale    scale of its discrete Laplace noise; None: its noise is Gaussian
    """

    marginal: NoisyMarginal
    amount: Fraction
    scale: Fraction | None


Name = TypeVar("Name")

PaidMarginals = dict[tuple[tuple[str, ...], Names], PaidMarginal]
"""(digests of the recodings of the rows, attributes) → the last answer."""


class Curator:
    """Answers a model's questions about rows with noise, charges for each, and never shows a row.

    Each question goes through ``QueryExecutor``: charge, look up the transcript, and only when no
    answer is stored there, count the rows, add noise and store. A disclosure without noise, which
    benchmark rows alone allow, is recorded in place of a charge.

    counter, accountant, transcript, noise, recoding   see ``QueryExecutor``
    domain       declared attributes
    distance     rows that two neighbouring data sets differ by, at most, under ``relation``
    benchmark    whether the rows are public, so that disclosures are allowed
    paid_marginals   marginals of the same rows that this release may refine; None: none. No other
                 release may refine them.
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
        self._levels = NodeLevels()

    @property
    def domain(self) -> Domain:
        """The domain of the declared attributes."""
        return self._domain

    @property
    def distance(self) -> int:
        """The largest number of rows by which two neighbouring data sets differ."""
        return self._distance

    @property
    def accountant(self) -> Accountant:
        """The accountant of this release's budget."""
        return self._executor.accountant

    @property
    def currency(self) -> Currency:
        """The currency of the release's budget: ε or ρ."""
        return self._executor.currency

    def __repr__(self) -> str:
        attributes = len(self.domain.names)
        return f"{type(self).__name__}({attributes} attributes, distance {self.distance})"

    def grouped(self, groupings: Mapping[str, Grouping]) -> Curator:
        """Return a curator of the same rows, with levels of some attributes merged into groups.

        groupings   attribute → the released group of each level

        Every row is recoded by itself, so one row more is still one row more: all proofs hold.
        """
        checks.require_groupings(self._domain, groupings)
        grouped = {name: grouping.of(self._domain[name]) for name, grouping in groupings.items()}
        # Constraints name levels, which the grouped attributes no longer have.
        domain = Domain(self._domain.with_attributes(grouped).attributes)
        rows = self._executor.counter
        counter = None if rows is None else rows.grouped(groupings)
        return self._recoded(counter, domain, ("groups", groupings))

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Curator:
        """Return a curator of the same rows, with attributes derived from others of each row.

        derived   new name → the attributes that it is derived from, and the public or released rule

        Every row is recoded by itself, so one row more is still one row more.
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
        query = self._executor.laplace_query(words, l1=l1_per_row * self.distance, epsilon=epsilon)
        return self._executor.charge_and_answer(query, key, count)

    def measure(self, attributes: Names, *, epsilon: Fraction) -> NoisyMarginal:
        """Return the noisy marginal over ``attributes``; () stands for the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        checks.require_table(self.domain, attributes)
        query = self._executor.laplace_query(_words(attributes), l1=self.distance, epsilon=epsilon)
        return self._marginals({attributes: query})[0]

    def measure_left_out(self) -> NoisyNumber:
        """Return the noisy number of rows that no other answer counts, with all of the budget's ε.

        It costs nothing beside the other questions, which may spend all of the budget ε too.

        *Proof.* Neighbours differ by a counted and b left-out rows, a + b ≤ distance: a row is one
        or the other by itself, and of a person both are together at most ``protection.rows``. Each
        other question is proved by its change a row, times the distance: so a rows cost at most
        a/distance of its ε, of all of them a·ε/distance. This number changes by b, at the scale
        distance/ε. Together that is (a + b)·ε/distance ≤ ε. No other question counts left-out rows,
        and this one counts no others. ∎
        """
        words, epsilon = "rows left out", self.accountant.epsilon
        query = self._executor.laplace_query(words, l1=self.distance, epsilon=epsilon)
        self.accountant.charge_beside(query.spend)
        answer = self._executor.answer(
            query, ("rows left out",), lambda counter: counter.count_left_out().open_at_the_gate()
        )
        return NoisyNumber(float(answer), float(query.spend.scale), "rows")

    def tabulate(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Return noisy marginals, counted in one scan of the rows, in the order of ``amounts``.

        amounts   attributes → ε or ρ; () is the number of rows

        All are charged before the rows are counted. ⊕ one row is in one cell of every table:
        Δ1 = Δ2 = 1 a row, with discrete Laplace noise for an ε, Gaussian for a ρ.
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
        return mechanisms.laplace_scale(l1=self.distance, epsilon=epsilon)

    def _marginals(self, queries: Mapping[Names, NoisyQuery]) -> tuple[NoisyMarginal, ...]:
        keys = {names: ("marginal", names) for names in queries}
        marginals = []
        for names, record in self._count_all(queries, keys, _count_of(queries)).items():
            spend = queries[names].spend
            marginals.append(self._noisy_marginal(names, record, spend))
            self._remember(marginals[-1], spend.epsilon, record.scale)
        return tuple(marginals)

    def _noisy_marginal(self, names: Names, record: AnswerRecord, spend: Spend) -> NoisyMarginal:
        table = record.answer.reshape(self.domain.shape(names))
        return NoisyMarginal(names, table, spend.scale, spend.mechanism == GAUSSIAN)

    def _count_all(
        self,
        queries: Mapping[Name, NoisyQuery],
        keys: Mapping[Name, QuestionKey],
        scan: Callable[[Counter], list[Sealed]],
    ) -> dict[Name, AnswerRecord]:
        """Charge for all queries, then return their answer records by name, from one scan."""
        self.accountant.charge(*(query.spend for query in queries.values()))
        cached, records = CachedScan(scan), dict[Name, AnswerRecord]()
        for position, (name, query) in enumerate(queries.items()):

            def count(counter: Counter, position: int = position) -> IntArray:
                return cached(counter)[position].open_at_the_gate()

            records[name] = self._executor.answer_record(query, keys[name], count)
        return records

    def measure_pairs(self, amounts: Mapping[str, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Return, for each attribute, the noisy table of pairs of parts of a unit, by unit size.

        amounts   attribute of a part → ε or ρ; answers (c, k, k) in this order, for c sizes

        All are charged before the rows are counted. ⊕ one unit weighs one unit's weight in every
        table: Δ1 = Δ2 = ``UNIT_WEIGHT`` (proof in ``gate.parts``), which is the distance.
        """
        parts = self.domain.parts
        if parts is None or not {*amounts} <= {*parts.attributes}:
            raise BoundaryViolation(
                "Pairs within a unit can be measured of the attributes of its parts alone "
                f"({', '.join(parts.attributes) if parts else 'there are none'}), not of "
                f"{', '.join(amounts) or 'none'}"
            )
        queries = {
            name: self._executor.vector_query(
                f"pairs of {parts.name} by {name}",
                l1=self.distance,
                l2_squared=self.distance**2,
                amount=amount,
            )
            for name, amount in amounts.items()
        }

        def scan(counter: Counter) -> list[Sealed]:
            if not isinstance(counter, PartsCounter):
                raise BoundaryViolation(
                    "Pairs within a unit can be counted only where units have parts, not by "
                    f"{type(counter).__name__}"
                )
            return counter.pairs(list(queries))

        records = self._count_all(queries, {name: ("pairs", name) for name in queries}, scan)
        return tuple(
            self._noisy_marginal((SIZE, name, name), record, queries[name].spend)
            for name, record in records.items()
        )

    def refine(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Return measured marginals with less noise, each for an additional amount.

        amounts   attributes → ε or ρ in addition to what was paid for them; answers in this order

        All are charged before the rows are counted. A marginal measured for e and refined for f has
        about the noise of one measured for e + f, and both answers together cost e + f. In ε the
        noise is exactly that (``mechanisms.refine``); Δ1 = 1 a row. In ρ the marginal is measured
        once more; the mean weighted by precision, which is post-processing, has the variance of
        e + f, and what rounding adds. The refined answer is the last one that was drawn.
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
        for names, record in self._count_all(queries, keys, _count_of(queries)).items():
            table = record.answer.reshape(earlier[names].marginal.table.shape)
            total = earlier[names].amount + amounts[names]
            marginals.append(NoisyMarginal(names, table, self._scale(total)))
            self._remember(marginals[-1], total, record.scale)
        return tuple(marginals)

    def _measured_again(
        self, amounts: Mapping[Names, Fraction], earlier: Mapping[Names, PaidMarginal]
    ) -> tuple[NoisyMarginal, ...]:
        marginals = []
        for again in self.tabulate(amounts):
            first = earlier[again.attributes]
            marginals.append(first.marginal.averaged(again))
            self._remember(marginals[-1], first.amount + amounts[again.attributes], None)
        return tuple(marginals)

    def _remember(self, marginal: NoisyMarginal, amount: Fraction, scale: Fraction | None) -> None:
        # A copy, since a model may write into its own table.
        copy = replace(marginal, table=marginal.table.copy())
        key = self._executor.recoding, marginal.attributes
        self._paid_marginals[key] = PaidMarginal(copy, amount, scale)

    def _last_answer(self, names: Names) -> PaidMarginal:
        last = self._paid_marginals.get((self._executor.recoding, names))
        if last is None or (last.scale is None) != (self.currency != PURE):
            fault = "was not measured" if last is None else "was measured in another currency"
            raise BoundaryViolation(
                f"A refinement needs a measured marginal, but that of {_words(names)} {fault}"
            )
        return last

    def choose(self, words: str, candidates: Mapping[Names, Score], *, epsilon: Fraction) -> Names:
        """Return the attributes of a candidate table with a nearly highest score: Δ∞ = max Δ_i.

        epsilon   amount of the release's currency, ε or ρ
        """
        return self.open_scores(candidates).choose(words, tuple(candidates), amount=epsilon)

    def open_scores(self, candidates: Mapping[Names, Score]) -> ScoreSession:
        """Return a session of paid questions about the scores of tables; opening it costs nothing.

        Proofs: ``gate.scores``, ``ScoreSession``. BoundaryViolation for a score that needs a public
        number of rows where it is not public.
        """
        if any(isinstance(score, PUBLIC_ROW_SCORES) for score in candidates.values()):
            self._require_public_rows("scores")
        proven = Candidates(candidates, domain=self.domain, distance=self.distance)
        return ScoreSession(proven, self._executor)

    def public_rows(self) -> int:
        """Return the exact number of rows, if all neighbours have as many; recorded, not charged.

        Under ``replace_one`` with one row a person, a neighbour has another row, not one more. This
        is about prepared rows, and preparation could drop a replaced row: so benchmark rows alone
        allow it. BoundaryViolation for all others, before a row is counted.
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
                f"A question about the {question} needs a public number of rows, as of benchmark "
                "rows under replace_one with one row a person, not "
                f"benchmark={self._benchmark} under {self._relation} at distance {self.distance}"
            )

    def measure_marginal_error(
        self, released: dict[Names, IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Return the noisy total error of m released marginals, shape ().

        released   attributes → int64 q ≥ 0 of the marginal's shape, Σ q = 2^16

        The total is ⌊Σ over marginals and cells of |2^16·c − n·q| / 2^s⌋ for exact counts c of n
        rows, s = ``error_shift(m)``: for less than 2^37 rows it stays below 2^63.
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
        """Return all cells over ``attributes`` whose noisy count is at least ``threshold``.

        attributes   one or more, with at most 2^62 cells together
        threshold    integer ≥ 1 that at most 2^20 empty cells reach on average

        ⊕ one row is in one cell of the table: Δ1 = 1 a row, for noise on *every* cell. The
        threshold is post-processing, and drawing only the cells that reach it changes no
        probability (``gate.sparse_sampler``). BoundaryViolation for other arguments.
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

    def measure_grid(self, columns: tuple[str, ...], *, cells: int, epsilon: Fraction) -> NoisyGrid:
        """Return the noisy counts of a grid over the box, with ``cells`` cells on each axis.

        ⊕ one row is in one cell; empty cells get noise too: Δ1 = 1 a row.
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
        """Return the noisy counts of disjoint quadtree nodes of heights up to ``depth``.

        ⊕ one row is in at most one of disjoint nodes: Δ1 = 1 a row. A question about no nodes is
        charged too.
        """
        checks.require_grid(self.domain, columns, 1 << depth if depth >= 0 else 0)
        if not nodes.are_disjoint(len(columns), depth):
            raise BoundaryViolation(
                "Measured tree nodes must be disjoint, but some of these overlap: pass each "
                "box once"
            )
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(columns)}, depth {depth}",
            ("nodes", columns, nodes.heights, nodes.cells),
            lambda counter: self._levels.counts(counter, columns, nodes, depth),
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def measure_boxes(self, tree: BitTree, nodes: Prefixes, *, epsilon: Fraction) -> NoisyNodes:
        """Return the noisy counts of disjoint nodes of a binary tree.

        ⊕ one row is in at most one of disjoint nodes: Δ1 = 1 a row.
        """
        checks.require_tree(self.domain, tree)
        checks.require_nodes(tree, nodes, 0)
        if not nodes.are_disjoint():
            raise BoundaryViolation(
                "Measured tree nodes must be disjoint, but some of these overlap: pass each "
                "box once"
            )
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(tree.columns)}",
            ("boxes", tree, nodes),
            lambda counter: counter.children(tree, [(nodes, 0)])[0].open_at_the_gate()[:, 0],
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def open_tree(self, tree: BitTree, *, epsilon: Fraction) -> TreeSession:
        """Charge ε once, for each path of a tree to spend; return the session that counts boxes.

        The release is refused while a path has shares left. Proof: ``TreeSession``.
        """
        checks.require_tree(self.domain, tree)
        scale = self._scale(epsilon)
        # The largest scale of the session: noise that cannot be drawn is refused before the charge.
        checked_scale(scale * SHARES)
        words = f"tree over {', '.join(tree.columns)}"
        spend = Spend(words, TREE_PATHS, epsilon, self.distance, scale)
        session = TreeSession(tree, spend, self._executor)
        self.accountant.charge(spend, require_complete=session.close)
        return session

    def open_splits(self, tree: BitTree, *, bits: int, epsilon: Fraction) -> SplitSession:
        """Charge ε once for all splits of a 2^bits-way tree; return the session that decides them.

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
        """Return the noisy total of clipped squared distances to the nearest centre, shape ().

        ⊕ one row at squared distance D adds min(D, clip) >> shift: Δ1 = clip >> shift a row.
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
        """Return the noisy sizes and coordinate totals of the clusters of every subset of the rows.

        rules   the centres of each subset; a hash of its coordinates puts a row into one of them

        ⊕ one row is in one subset and one cluster: Δ1 = 1 a row for the sizes, and
        Σ|q| ≤ d·2^16 for the totals. Both are charged before the one scan.
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
        """Return the noisy totals by axis of clipped signed distances from each centre, (k, d).

        radii   of each centre; a total counts 2^16 for a distance of one radius

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
        """Return the noisy table of the levels of ``attribute`` by cluster, (levels, k).

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
        """Return the noisy numbers of rows that a rule predicts rightly and wrongly, (2,).

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
        """Return the exact smallest and largest coordinates of benchmark rows, (2, d).

        They are fixed-point numbers, those of the declared box where there are no rows.
        """
        checks.require_axes(self.domain, columns)
        words = f"smallest and largest of {', '.join(columns)}"
        key = ("bounds", columns)
        return self._disclosed(words, key, reason, lambda counter: counter.bounds(columns))

    def disclose_records(
        self, columns: tuple[str, ...], many: int, salt: int, *, reason: str
    ) -> IntArray:
        """Return ``many`` exact benchmark rows, sampled by a hash of their coordinates, (many, d).

        With fewer rows, the middle of the box stands for the others; salt is public, 0 … 2^63 − 1.
        """
        checks.require_axes(self.domain, columns)
        if not (1 <= many <= MAX_GRID_CELLS and 0 <= salt < 1 << 63):
            raise BoundaryViolation(
                f"A disclosure needs 1 to {MAX_GRID_CELLS} records and a salt in 0..2^63 − 1, not "
                f"{many} records and the salt {salt!r:.30}"
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
            raise BoundaryViolation(
                f"Only benchmark rows may be disclosed, not {words} of sensitive rows"
            )
        self.accountant.disclose(Disclosure(words, reason))

        def exact(counter: Counter) -> IntArray:
            if not isinstance(counter, Disclosing):
                raise BoundaryViolation(
                    f"The engine {type(counter).__name__} cannot disclose {words}"
                )
            return exact_query(counter).open_at_the_gate()

        return self._executor.answer_without_noise(f"disclosed without noise: {words}", key, exact)


def error_shift(marginals: int) -> int:
    """Return how many low bits of a total error of marginals to drop, so that a row adds ≤ 2^26.

    >>> error_shift(511), error_shift(512), error_shift(2000)
    (0, 1, 2)
    """
    return max(0, marginals.bit_length() - 9)


def _count_of(tables: Mapping[Names, object]) -> Callable[[Counter], list[Sealed]]:
    return lambda counter: counter.count(list(tables))


def _words(attributes: Names) -> str:
    return f"marginal of {', '.join(attributes)}" if attributes else "number of rows"

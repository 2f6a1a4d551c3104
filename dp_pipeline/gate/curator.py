"""Curator: what a private model is handed in place of rows. It asks, and pays for every answer.

TableQuestions: what may be asked of contingency tables, each with its proof.

PlaceQuestions: what may be asked of places in the declared box, each with its proof.

CentreQuestions: what may be asked of released centres, each with its proof.

SparseQuestions: what may be asked of a table that is larger than any array.

PredictionQuestions: what may be asked of released classifiers, with its proof.

What published methods ask of the rows without noise: no ε holds for a release that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from dp_pipeline.gate.charge import Asked, Door, Once, PaidNoise
from dp_pipeline.gate.checks import (
    require_axes,
    require_classes,
    require_fan,
    require_grid,
    require_nodes,
    require_released,
    require_rule,
    require_sparse,
    require_subsets,
    require_table,
    require_tree,
)
from dp_pipeline.gate.counter import MOST_GRID_CELLS, Counter, Disclosing, Sealed
from dp_pipeline.gate.noise import checked_scale
from dp_pipeline.gate.rules import NearestCentre, PredictedLabel
from dp_pipeline.gate.scores import OF_PUBLIC_ROWS, Score
from dp_pipeline.gate.selection import Candidates, ScoreSession
from dp_pipeline.gate.trees import NodeLevels, SplitSession, TreeSession, split_scale
from dp_pipeline.release.accountant import GAUSSIAN, TREE_PATHS, Disclosure, Spend, biased_splits
from dp_pipeline.release.measurement import (
    SHARES,
    NoisyClusters,
    NoisyGrid,
    NoisyMarginal,
    NoisyNodes,
    SparseTable,
)
from dp_pipeline.release.trees import BitTree, Nodes, Prefixes
from dp_pipeline.spec.encoding import COORDINATE_BITS, IntArray, Names
from dp_pipeline.spec.errors import BoundaryViolation


class TableQuestions(Door):
    """Marginals, scores and choices among them, and how far released ones are off."""

    def measure(self, attributes: Names, *, epsilon: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell noisy; () is the number of rows.

        ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        require_table(self.domain, attributes)
        paid = self._prices.of_laplace(_words(attributes), l1=self.reach, epsilon=epsilon)
        self.accountant.charge(paid.spend)
        return self._tabulated([attributes], [paid])[0]

    def measure_gaussian(self, attributes: Names, *, rho: Fraction) -> NoisyMarginal:
        """The marginal over ``attributes``, every cell with discrete Gaussian noise.

        ⊕ one row is in one cell, all rows of a person perhaps in the same: Δ2 = 1 a row.
        BoundaryViolation in a release that pays in ε.
        """
        require_table(self.domain, attributes)
        paid = self._prices.of_gaussian(_words(attributes), l2_squared=self.reach**2, rho=rho)
        self.accountant.charge(paid.spend)
        return self._tabulated([attributes], [paid])[0]

    def tabulate(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Many marginals in one scan, each for its own amount of the release's currency.

        amounts   attributes → ε or ρ; () is the number of rows. Answers are in this order.

        A charge each, all of them made before the look. ⊕ one row is in one cell of every
        table: Δ1 = Δ2 = 1 a row, with discrete Laplace noise for an ε, Gaussian for a ρ.
        """
        asked = dict(amounts)
        for attributes in asked:
            require_table(self.domain, attributes)
        l1, l2_squared = self.reach, self.reach**2
        paid = [
            self._prices.of_vector(_words(names), l1=l1, l2_squared=l2_squared, amount=amount)
            for names, amount in asked.items()
        ]
        self.accountant.charge(*(one.spend for one in paid))
        return self._tabulated(list(asked), paid)

    def _tabulated(
        self, marginals: list[Names], paid: list[PaidNoise]
    ) -> tuple[NoisyMarginal, ...]:
        """Marginals that were charged: one scan, and an answer stored for each."""
        look = Once(lambda counter: counter.count(marginals))

        def table(at: int) -> IntArray:
            answer = self._answer(
                paid[at],
                ("marginal", marginals[at]),
                lambda counter: look(counter)[at].open_at_the_gate(),
            )
            return answer.reshape(self.domain.shape(marginals[at]))

        return tuple(
            NoisyMarginal(names, table(at), one.spend.scale, one.spend.mechanism == GAUSSIAN)
            for at, (names, one) in enumerate(zip(marginals, paid, strict=True))
        )

    def choose(self, what: str, candidates: Mapping[Names, Score], *, epsilon: Fraction) -> Names:
        """The attributes whose table has a nearly highest score, for an amount of the release's
        currency. No score moves by more than the largest Δ∞ among them, at this reach.
        """
        return self.open_scores(candidates).choose(what, tuple(candidates), amount=epsilon)

    def open_scores(self, candidates: Mapping[Names, Score]) -> ScoreSession:
        """Scores of tables, to be asked about as often as is paid for; this costs nothing.

        Proofs: ``gate.scores``, ``ScoreSession``. BoundaryViolation for a score that needs
        ``public_rows`` where there are none.
        """
        if any(isinstance(score, OF_PUBLIC_ROWS) for score in candidates.values()):
            self._require_public_rows("scores")
        known = Candidates(candidates, domain=self.domain, reach=self.reach)
        return ScoreSession(known, prices=self._prices, ask=self._ask)

    def public_rows(self) -> int:
        """The number of rows, where neighbours have the same: free, and recorded.

        Under ``replace_one``, where a person is one row, n is a function of what is public: a
        neighbour has another row, not one more. This is about prepared rows: a replaced row
        that preparation would drop makes no neighbour. So on benchmark rows alone;
        BoundaryViolation before any look on others.
        """
        self._require_public_rows("number of rows")
        return int(
            self._without_noise(
                "public, not noisy: number of rows",
                ("public number of rows",),
                lambda counter: counter.count([()])[0].open_at_the_gate(),
            )
        )

    def _require_public_rows(self, what: str) -> None:
        if not self._benchmark or self._relation != "replace_one" or self.reach != 2:
            raise BoundaryViolation(
                f"{what}: expected benchmark rows under replace_one with one row a person, where "
                "the number of rows is public, got others"
            )

    def measure_marginal_error(
        self, released: dict[Names, IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Σ over m released marginals of Σ over cells of |2^16·c − n·q|, noisy; shape ().

        released   attributes → int64 q ≥ 0 of the marginal's shape, Σ q = 2^16

        ⊕ one more row changes c in one cell by 1 and n by 1, so one marginal's sum by at
        most 2^16 + Σ q = 2^17, and the total by m · 2^17.
        """
        require_released(self.domain, released)

        def exact(counter: Counter) -> IntArray:
            tables = counter.count(list(released))
            total = 0
            for q, sealed in zip(released.values(), tables, strict=True):
                counts = sealed.open_at_the_gate()
                total += int(np.abs((counts << 16) - counts.sum() * q).sum())
            return np.array(total, dtype=np.int64)

        return self._laplace(
            f"error of {len(released)} released marginals",
            ("error of marginals", released),
            exact,
            l1_per_row=len(released) << 17,
            epsilon=epsilon,
        )


def _words(attributes: Names) -> str:
    return f"marginal of {', '.join(attributes)}" if attributes else "number of rows"


class PlaceQuestions(Door):
    """Grids, tree nodes, and trees that grow from answer to answer."""

    @cached_property
    def _levels(self) -> NodeLevels:
        return NodeLevels()

    def measure_grid(self, columns: tuple[str, ...], *, cells: int, epsilon: Fraction) -> NoisyGrid:
        """Counts of ``cells`` equal intervals an axis over the declared box.

        ⊕ one row is in one cell, empty cells are measured too: Δ1 = 1 a row.
        """
        require_grid(self.domain, columns, cells)
        table = self._laplace(
            f"grid of {cells} cells an axis over {', '.join(columns)}",
            ("grid", columns, cells),
            lambda counter: counter.grid(columns, cells).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )
        shape = (cells,) * len(columns)
        return NoisyGrid(columns, table.reshape(shape), self._scale(1, epsilon))

    def measure_nodes(
        self, columns: tuple[str, ...], nodes: Nodes, *, depth: int, epsilon: Fraction
    ) -> NoisyNodes:
        """Counts of tree nodes of heights up to ``depth`` (the finest the model will ask for).

        ⊕ the nodes are disjoint, checked here, so one row is in at most one: Δ1 = 1 a row.
        No nodes at all is a measure too: charged, recorded, empty.
        """
        require_grid(self.domain, columns, 1 << depth if depth >= 0 else 0)
        if not nodes.are_disjoint(len(columns), depth):
            raise BoundaryViolation("tree measure: expected disjoint nodes, got overlapping ones")
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(columns)}, depth {depth}",
            ("nodes", columns, nodes.heights, nodes.cells),
            lambda counter: self._levels.counts(counter, columns, nodes, depth),
            l1_per_row=1,
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(1, epsilon))

    def measure_boxes(self, tree: BitTree, nodes: Prefixes, *, epsilon: Fraction) -> NoisyNodes:
        """Counts of disjoint nodes of a binary tree.

        ⊕ the nodes are disjoint, checked here, so one row is in at most one: Δ1 = 1 a row.
        """
        require_tree(self.domain, tree)
        require_nodes(tree, nodes, 0)
        if not nodes.are_disjoint():
            raise BoundaryViolation("tree measure: expected disjoint nodes, got overlapping ones")
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(tree.columns)}",
            ("boxes", tree, nodes),
            lambda counter: counter.children(tree, nodes, 0).open_at_the_gate()[:, 0],
            l1_per_row=1,
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(1, epsilon))

    def open_tree(self, tree: BitTree, *, epsilon: Fraction) -> TreeSession:
        """A tree whose every root-to-leaf path spends exactly ``epsilon``; charged now.

        The release is refused while a path has something left. Proof: ``TreeSession``.
        """
        require_tree(self.domain, tree)
        scale = self._scale(1, epsilon)
        # The largest scale that the session may be asked for: what cannot be drawn is not charged.
        checked_scale(scale * SHARES)
        what = f"tree over {', '.join(tree.columns)}"
        spend = Spend(what, TREE_PATHS, epsilon, self.reach, scale)
        session = TreeSession(
            tree,
            epsilon=epsilon,
            reach=self.reach,
            noise=self._noise,
            answer=self._answers_to(spend),
        )
        self.accountant.charge(spend, settled=session.close)
        return session

    def open_splits(self, tree: BitTree, *, bits: int, epsilon: Fraction) -> SplitSession:
        """Splits of a 2^bits-way tree, however deep, for ``epsilon``; charged now.

        Proof: ``SplitSession``.
        """
        require_tree(self.domain, tree)
        require_fan(bits)
        fan = 1 << bits
        scale = checked_scale(split_scale(fan=fan, reach=self.reach, epsilon=epsilon))
        what = f"splits over {', '.join(tree.columns)}"
        spend = Spend(what, biased_splits(fan), epsilon, self.reach, scale)
        self.accountant.charge(spend)
        return SplitSession(
            tree, bits=bits, scale=scale, noise=self._noise, answer=self._answers_to(spend)
        )


class CentreQuestions(Door):
    """Rows by their nearest released centre: how far, how many, where, and of which level."""

    def measure_distance(
        self, rule: NearestCentre, *, clip: int, shift: int, epsilon: Fraction
    ) -> IntArray:
        """Σ min(D, clip) >> shift over the rows, noisy; shape ().

        ⊕ one row adds a whole number in 0..clip >> shift: Δ1 = clip >> shift a row.
        """
        require_rule(self.domain, rule)
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
        """Sizes and totals of the clusters of every subset: two measures, one scan.

        rules   one a subset; one alone takes every row. Rows go to subsets by a hash.

        ⊕ one row is in one subset and one cluster: Δ1 = 1 a row for the sizes, and
        Σ|q| ≤ d·2^16 for the totals. Two units, so two measures, both charged first.
        """
        require_subsets(self.domain, rules, salt)
        d = len(rules[0].columns)
        what = f"of {len(rules)} × {len(rules[0].centres)} clusters"
        of_sizes = self._spend(f"sizes {what}", 1, sizes_epsilon)
        of_totals = self._spend(f"totals {what}", d << COORDINATE_BITS, totals_epsilon)
        self.accountant.charge(of_sizes, of_totals)
        look = Once(lambda counter: counter.sum_by_centre(rules, salt=salt).open_at_the_gate())
        about = (tuple(rules), salt)
        sizes = self._noisy(
            of_sizes, ("sizes of clusters", *about), lambda counter: look(counter)[..., 0]
        )
        totals = self._noisy(
            of_totals, ("totals of clusters", *about), lambda counter: look(counter)[..., 1:]
        )
        return NoisyClusters(sizes, totals, of_sizes.scale, of_totals.scale)

    def measure_residuals(
        self, rule: NearestCentre, radii: tuple[int, ...], *, epsilon: Fraction
    ) -> IntArray:
        """Clipped residual totals of every cluster, noisy, (k, d); one radius is 2^16.

        ⊕ one row is in one cluster and adds at most 2^16 in L1 (rounded towards zero).
        """
        require_rule(self.domain, rule)
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
        """Rows of every level of ``attribute`` in every released cluster, noisy, (levels, k).

        ⊕ one row has one level and one nearest centre: Δ1 = 1 a row.
        """
        require_classes(self.domain, rule, attribute)
        return self._laplace(
            f"levels of {attribute} in {len(rule.centres)} clusters",
            ("levels in clusters", rule, attribute),
            lambda counter: counter.classify(rule, attribute).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )


class SparseQuestions(Door):
    """The large cells of one huge table, with their proof."""

    def sparse_table(
        self, attributes: tuple[str, ...], *, threshold: int, epsilon: Fraction
    ) -> SparseTable:
        """All cells over ``attributes`` with a noisy count of at least ``threshold``.

        attributes   one or more, with at most 2^62 cells together
        threshold    whole, at least 1; at most 2^20 empty cells may be expected to reach it

        ⊕ one row is in one cell of the table: Δ1 = 1 a row, for noise on *every* cell. That
        only those above the threshold are kept is post-processing, and that the others are
        never drawn one by one changes no probability (``gate.sparse_laplace``). Hence ε.
        BoundaryViolation for anything else, from public numbers alone.
        """
        spend = self._spend(
            f"cells of {', '.join(attributes)} from {threshold} rows on", 1, epsilon
        )
        cells = require_sparse(self.domain, attributes, threshold=threshold, scale=spend.scale)
        self.accountant.charge(spend)

        def draw(counter: Counter) -> IntArray:
            return self._noise.sparse_laplace(
                counter.occupied(attributes).open_at_the_gate(),
                spend.scale,
                cells=cells,
                threshold=threshold,
            )

        kept = self._paid(spend, ("sparse table", attributes, threshold), draw)
        shape = self.domain.shape(attributes)
        return SparseTable(attributes, shape, kept, threshold, spend.scale)


class PredictionQuestions(Door):
    """How often a classifier that was learned from released rows is right about the true ones."""

    def measure_mistakes(self, rule: PredictedLabel, *, epsilon: Fraction) -> IntArray:
        """Rows that the rule answers rightly and rows that it answers wrongly, noisy, (2,).

        The gate learns nothing: the rule is fixed before the rows are looked at.
        ⊕ one row is answered rightly or wrongly: Δ1 = 1 a row.
        """
        rule.require_exact(self.domain)
        return self._laplace(
            f"right and wrong predictions of {rule.target}",
            ("mistakes", rule),
            lambda counter: counter.mistakes(rule).open_at_the_gate(),
            l1_per_row=1,
            epsilon=epsilon,
        )


class Disclosures(Door):
    """Exact answers about benchmark rows, each recorded before it is looked up.

    BoundaryViolation before any look on data to be released. The accountant keeps
    every disclosure, so the release is ``not-dp`` whatever else it spends.
    """

    def disclose_bounds(self, columns: tuple[str, ...], *, reason: str) -> IntArray:
        """Smallest and largest fixed-point coordinate of every column, (2, d); the declared box
        where there is nobody.
        """
        require_axes(self.domain, columns)
        what = f"smallest and largest of {', '.join(columns)}"
        asked = ("bounds", columns)
        return self._disclosed(what, asked, reason, lambda counter: counter.bounds(columns))

    def disclose_records(
        self, columns: tuple[str, ...], many: int, salt: int, *, reason: str
    ) -> IntArray:
        """Fixed-point coordinates of ``many`` rows drawn by a hash of their content, (many, d);
        the middle of the box where there are fewer.

        salt   public, 0 … 2^63 − 1
        """
        require_axes(self.domain, columns)
        if not (1 <= many <= MOST_GRID_CELLS and 0 <= salt < 1 << 63):
            raise BoundaryViolation(
                f"records: expected 1 to {MOST_GRID_CELLS} of them and a salt in 0..2^63 − 1"
            )
        what = f"{many} records of {', '.join(columns)}, salt {salt}"
        asked = ("records", columns, many, salt)
        return self._disclosed(
            what, asked, reason, lambda counter: counter.records(columns, many, salt)
        )

    def _disclosed(
        self, what: str, asked: Asked, reason: str, look: Callable[[Disclosing], Sealed]
    ) -> IntArray:
        if not self._benchmark:
            raise BoundaryViolation(f"{what}: expected benchmark rows, got rows to be protected")
        self.accountant.disclose(Disclosure(what, reason))

        def exact(counter: Counter) -> IntArray:
            if not isinstance(counter, Disclosing):
                raise BoundaryViolation(f"{what}: expected an engine that discloses, got another")
            return look(counter).open_at_the_gate()

        return self._without_noise(f"disclosed without noise: {what}", asked, exact)


class Curator(
    TableQuestions,
    SparseQuestions,
    PlaceQuestions,
    CentreQuestions,
    PredictionQuestions,
    Disclosures,
):
    """The only way from a model to the rows: tables, places in the declared box, released centres
    and released classifiers.

    Each question goes the same way (``Door``): charge; look up the transcript; only when the
    answer was never drawn, look at the rows, add noise, store; then return it. What is
    disclosed without noise, on benchmarks alone, is recorded in the place of a charge.
    """

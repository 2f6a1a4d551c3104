"""The questions that a private model may ask about the coordinates of rows, with their proofs."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property

from dp_pipeline.config.encoding import COORDINATE_BITS, IntArray
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks
from dp_pipeline.gate.charge import QuestionKey
from dp_pipeline.gate.counter import MAX_GRID_CELLS, Counter, Sealed
from dp_pipeline.gate.mechanisms import laplace_query
from dp_pipeline.gate.noise import checked_scale
from dp_pipeline.gate.rules import NearestCentre
from dp_pipeline.gate.table_curator import TableCurator
from dp_pipeline.gate.trees import NodeCounts, SplitSession, TreeSession, split_scale
from dp_pipeline.results.accountant import TREE_PATHS, Disclosure, Spend, biased_splits_name
from dp_pipeline.results.measurement import SHARES, NoisyClusters, NoisyGrid, NoisyNodes
from dp_pipeline.results.trees import BitTree, Prefixes


class Curator(TableCurator):
    """An interface by which a model asks about tables and coordinates; it never shows a row.

    In a proof, ⊕ stands before the effect of one row more.
    """

    @cached_property
    def _node_counts(self) -> NodeCounts:
        return NodeCounts()

    def measure_grid(self, columns: tuple[str, ...], *, cells: int, epsilon: Fraction) -> NoisyGrid:
        """Charge ε and return the noisy counts of a grid over the declared box of ``columns``.

        cells   on each axis

        ⊕ one row is in one cell; empty cells get noise too: Δ1 = 1 a row.
        """
        checks.require_grid(self.domain, columns, cells)
        table = self._laplace(
            f"grid of {cells} cells an axis over {', '.join(columns)}",
            ("grid", columns, cells),
            lambda counter: counter.grid(columns, cells),
            epsilon=epsilon,
        )
        shape = (cells,) * len(columns)
        return NoisyGrid(columns, table.reshape(shape), self._scale(epsilon))

    def measure_nodes(
        self, columns: tuple[str, ...], nodes: Prefixes, *, depth: int, epsilon: Fraction
    ) -> NoisyNodes:
        """Charge ε and return noisy row counts of disjoint nodes of a quadtree, in their order.

        depth   its levels below the root, of one bit for each column

        ⊕ one row is in at most one of disjoint nodes: Δ1 = 1 a row. A question about no nodes is
        charged too. BoundaryViolation for nodes that overlap.
        """
        checks.require_grid(self.domain, columns, 1 << depth if depth >= 0 else 0)
        tree = BitTree.quadtree(columns, depth)
        checks.require_nodes(tree, nodes, 0)
        checks.require_disjoint(nodes.are_disjoint())
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(columns)}, depth {depth}",
            ("nodes", columns, *nodes.grid_cells(len(columns))),
            lambda counter: self._node_counts.counts(counter, tree, nodes),
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def measure_boxes(self, tree: BitTree, nodes: Prefixes, *, epsilon: Fraction) -> NoisyNodes:
        """Charge ε and return the noisy row counts of disjoint nodes of a binary tree.

        ⊕ one row is in at most one of disjoint nodes: Δ1 = 1 a row. BoundaryViolation for nodes
        that overlap.
        """
        checks.require_tree(self.domain, tree)
        checks.require_nodes(tree, nodes, 0)
        checks.require_disjoint(nodes.are_disjoint())
        table = self._laplace(
            f"counts of {len(nodes)} tree nodes over {', '.join(tree.columns)}",
            ("boxes", tree, nodes),
            lambda counter: counter.children(tree, [(nodes, 0)])[0][:, 0],
            epsilon=epsilon,
        )
        return NoisyNodes(table, self._scale(epsilon))

    def open_tree(
        self, tree: BitTree, *, epsilon: Fraction, nodes: Prefixes | None = None
    ) -> TreeSession:
        """Charge ε and return a session that counts the boxes of a tree, with ε to spend on each
        path from a first node to a leaf.

        nodes   disjoint nodes where the paths begin; None: the root

        The release is refused while a path has ε left. Proof: ``TreeSession``.
        """
        checks.require_tree(self.domain, tree)
        nodes = Prefixes.root() if nodes is None else nodes
        checks.require_nodes(tree, nodes, 0)
        checks.require_disjoint(nodes.are_disjoint())
        scale = self._scale(epsilon)
        # The largest scale of the session: noise that cannot be drawn is refused before the charge.
        checked_scale(scale * SHARES)
        words = f"tree over {', '.join(tree.columns)}"
        spend = Spend(words, TREE_PATHS, epsilon, self.distance, scale)
        session = TreeSession(tree, spend, self._executor, nodes)
        self.accountant.charge(spend, require_complete=session.require_all_spent)
        return session

    def open_splits(self, tree: BitTree, *, bits: int, epsilon: Fraction) -> SplitSession:
        """Charge ε and return a session that decides which boxes of a 2^bits-way tree to split.

        Proof: ``SplitSession``.
        """
        checks.require_tree(self.domain, tree)
        checks.require_fan(bits)
        fan = 1 << bits
        scale = checked_scale(split_scale(fan=fan, distance=self.distance, epsilon=epsilon))
        words = f"splits over {', '.join(tree.columns)}"
        spend = Spend(words, biased_splits_name(fan), epsilon, self.distance, scale)
        self.accountant.charge(spend)
        return SplitSession(tree, spend, self._executor, bits=bits)

    def measure_distance(
        self, rule: NearestCentre, *, clip: int, shift: int, epsilon: Fraction
    ) -> IntArray:
        """Charge ε and return the noisy sum over rows of the clipped squared distance to the
        nearest centre, shape ().

        ⊕ one row at squared distance D adds min(D, clip) >> shift:
        Δ1 = clip >> shift a row.
        """
        checks.require_rule(self.domain, rule)
        rule.require_exact(clip=clip, shift=shift)
        return self._laplace(
            f"clipped squared distance to {len(rule.centres)} released centres, "
            f"clip {clip} shift {shift}",
            ("distance", rule, clip, shift),
            lambda counter: counter.distance_total(rule, clip=clip, shift=shift),
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
        """Charge both ε and return the noisy sizes and coordinate totals of clusters, in each
        subset of the rows.

        rules   the centres of each subset
        salt    public; a hash of its coordinates and the salt puts each row into one subset

        ⊕ one row is in one subset and one cluster: Δ1 = 1 a row for the sizes, and
        Σ|q| ≤ d·2^16 for the totals. Both are charged before the one scan.
        """
        checks.require_subsets(self.domain, rules, salt)
        d, distance = len(rules[0].columns), self.distance
        words = f"of {len(rules)} × {len(rules[0].centres)} clusters"
        queries = {
            "sizes": laplace_query(f"sizes {words}", l1=distance, epsilon=sizes_epsilon),
            "totals": laplace_query(
                f"totals {words}", l1=(d << COORDINATE_BITS) * distance, epsilon=totals_epsilon
            ),
        }
        arguments = (tuple(rules), salt)

        def scan(counter: Counter) -> list[Sealed]:
            sums = counter.sum_by_centre(rules, salt=salt)
            return [sums[..., 0], sums[..., 1:]]

        keys = {name: (f"{name} of clusters", *arguments) for name in queries}
        records = self._count_all(queries, keys, scan)
        sizes, totals = (record.answer for record in records.values())
        scales = (query.spend.scale for query in queries.values())
        return NoisyClusters(sizes, totals, *scales)

    def measure_residuals(
        self, rule: NearestCentre, radii: tuple[int, ...], *, epsilon: Fraction
    ) -> IntArray:
        """Charge ε and return noisy totals by axis of signed distances from each centre, (k, d).

        radii   for each centre, the distance at which distances are clipped; it counts 2^16

        ⊕ one row is in one cluster and adds at most 2^16 in L1 (rounded towards zero).
        """
        checks.require_rule(self.domain, rule)
        rule.require_radii(radii)
        return self._laplace(
            f"residuals of {len(rule.centres)} clusters",
            ("residuals", rule, radii),
            lambda counter: counter.residuals(rule, radii),
            l1_per_row=1 << COORDINATE_BITS,
            epsilon=epsilon,
        )

    def measure_classes(
        self, rule: NearestCentre, attribute: str, *, epsilon: Fraction
    ) -> IntArray:
        """Charge ε and return the noisy row counts by level of ``attribute`` and cluster.

        The shape is (levels, k). ⊕ one row has one level and one nearest centre: Δ1 = 1 a row.
        """
        checks.require_classes(self.domain, rule, attribute)
        return self._laplace(
            f"levels of {attribute} in {len(rule.centres)} clusters",
            ("levels in clusters", rule, attribute),
            lambda counter: counter.classify(rule, attribute),
            epsilon=epsilon,
        )

    def disclose_bounds(self, columns: tuple[str, ...], *, reason: str) -> IntArray:
        """Record a disclosure; return the exact least and largest coordinates of all rows, (2, d).

        They are fixed-point numbers; without a row they are the ends of the declared box.
        BoundaryViolation unless the rows are those of a benchmark.
        """
        checks.require_axes(self.domain, columns)
        words = f"smallest and largest of {', '.join(columns)}"
        key = ("bounds", columns)
        return self._disclosed(words, key, reason, lambda counter: counter.bounds(columns))

    def disclose_records(
        self, columns: tuple[str, ...], many: int, salt: int, *, reason: str
    ) -> IntArray:
        """Record a disclosure; return ``many`` exact rows, sampled by a hash of them, (many, d).

        Where there are fewer rows, rows of zeros follow, the middle of the box. The salt is public,
        0 … 2^63 − 1. BoundaryViolation unless the rows are those of a benchmark.
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
        self, words: str, key: QuestionKey, reason: str, exact_query: Callable[[Counter], Sealed]
    ) -> IntArray:
        if not self._benchmark:
            raise BoundaryViolation(
                f"Only benchmark rows may be disclosed, not {words} of sensitive rows"
            )
        self.accountant.disclose(Disclosure(words, reason))
        return self._executor.answer_without_noise(
            f"disclosed without noise: {words}", key, exact_query
        )

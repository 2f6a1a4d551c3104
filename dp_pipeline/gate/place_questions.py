"""PlaceQuestions: what may be asked of places in the declared box, each with its proof."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from dp_pipeline.gate.admissible import require_fan, require_grid, require_nodes, require_tree
from dp_pipeline.gate.door import Door
from dp_pipeline.gate.node_levels import NodeLevels
from dp_pipeline.gate.numbers import checked_scale
from dp_pipeline.gate.split_session import SplitSession, split_scale
from dp_pipeline.gate.tree_session import TreeSession
from dp_pipeline.release.accountant import TREE_PATHS, Spend, biased_splits
from dp_pipeline.release.bit_tree import BitTree, Prefixes
from dp_pipeline.release.measurement import SHARES, NoisyGrid, NoisyNodes
from dp_pipeline.release.quadtree import Nodes
from dp_pipeline.schema.errors import BoundaryViolation


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

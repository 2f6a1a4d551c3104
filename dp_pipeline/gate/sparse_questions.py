"""SparseQuestions: what may be asked of a table that is larger than any array."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.gate.admissible import require_sparse
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.door import Door
from dp_pipeline.release.sparse_table import SparseTable
from dp_pipeline.schema.encoding import IntArray


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

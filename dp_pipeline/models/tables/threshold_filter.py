"""threshold_filter: the cells of the table of all attributes that stay large after noise."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import code_type
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.mechanisms import laplace_scale
from dp_pipeline.gate.sparse_sampler import MAX_CELLS
from dp_pipeline.models.base import ROWS_SHARE
from dp_pipeline.models.tables.base import MOST_ESTIMATED_ROWS, TableModel
from dp_pipeline.results.derived_attribute import rounded_counts
from dp_pipeline.results.measurement import threshold_for
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class ThresholdFilter(TableModel):
    """The noisy cells of one table over all attributes that reach a threshold.

    attributes   discrete attributes with at most 2^62 cells together; all when empty
    empty_cells  empty cells that reach the threshold on average, at most: the threshold is
                 the least one that so many do, a function of ε and of declared sizes

    2 % of ε buys the number of rows, the rest is the noise of the table. Rows are drawn from
    the cells that are kept, in proportion to their noisy counts, and uniformly where none is:
    what is lost below the threshold is not guessed at.

    *Proof.* One row is in one cell of the table: Δ1 = 1 under add/remove, times the distance, for
    noise on every cell, empty ones included; keeping the large ones is post-processing, and
    not drawing the others one by one changes no probability (``gate.sparse_sampler``). The
    number of rows is one more measure, and the two add up to ε, exactly. ∎

    Source: Cormode, Procopiuc, Srivastava, Tran, "Differentially Private Summaries for Sparse
    Data" (ICDT 2012): the filter. Where hardly two rows share a cell, as in a wide table, all
    that is kept is noise.
    """

    summary: ClassVar[str] = "the cells of the table of all attributes that stay large after noise"

    empty_cells: int = integer(100, at_least=1, at_most=10**6, measuring=True)

    def check(self, domain: Domain) -> None:
        super().check(domain)
        names = self.chosen_attributes(domain)
        cells = domain.cell_count(names)
        if cells > MAX_CELLS:
            raise DeclarationError(
                "ThresholdFilter takes attributes of at most 2^62 cells together, but "
                f"{', '.join(names)} have {cells:.3g}: choose fewer or coarser ones"
            )

    def most_cells(self, domain: Domain) -> int:
        """Return how many cells are retained at most, as a rule: one for each row that can be
        drawn, and twice the empty cells that reach the threshold on average."""
        cells = domain.cell_count(self.chosen_attributes(domain))
        return min(cells, MOST_ESTIMATED_ROWS + 2 * self.empty_cells)

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return the noisy number of rows, and rows drawn by ``rng`` from the cells that reach the
        threshold."""
        names = self.chosen_attributes(curator.domain)
        of_rows = curator.measure((), epsilon=epsilon * ROWS_SHARE)
        of_cells = epsilon * (1 - ROWS_SHARE)
        threshold = threshold_for(
            curator.domain.cell_count(names),
            laplace_scale(l1=curator.distance, epsilon=of_cells),
            empty_cells=self.empty_cells,
        )
        cells = curator.sparse_table(names, threshold=threshold, epsilon=of_cells)
        rows, smallest = self.rows_to_draw(float(of_rows.table)), code_type(cells.shape)
        if len(cells.counts):
            counts = cells.counts[None].astype(np.float64)
            (row_counts,) = rounded_counts(counts, np.array([rows]), rng)
            codes = rng.permutation(np.repeat(cells.codes.astype(smallest), row_counts, axis=0))
        else:
            codes = rng.integers(0, cells.shape, size=(rows, len(names))).astype(smallest)
        return self.released_table(curator.domain, rng, codes, (of_rows,), (names,))

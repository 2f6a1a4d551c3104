"""PriView: noisy tables of a few overlapping views, and rows that agree with all of them."""

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import integer
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.clique_join import overlap_links, sample_network
from dp_pipeline.inference.junction_tree import cell_count
from dp_pipeline.inference.views import covering_design, max_entropy, view_network, view_tables
from dp_pipeline.models.base import Released
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.results.measurement import NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class PriView(TableModel):
    """Noisy tables of views that cover every pair of attributes, with maximum entropy for all else.

    view_size      ℓ, attributes of a view; None: as many as have ``view_cells`` cells together
    view_cells     cells of a view where ℓ is not declared, at most: 256 are those of 8 binary
                   attributes; a pair that has more is a view by itself
    clique_cells   a view with more cells is refused
    family_cells   most cells of a table that rows are drawn from

    The w views are a covering design (``inference.views``): a function of the declared
    sizes. Each is measured with ε/w; the tables are made consistent, and rippled to have no
    negative cell. Any other marginal is the one of largest entropy that agrees with the views
    (``answer``). The views overlap too much for a junction tree, so rows are drawn attribute by
    attribute: each one given the earlier attributes that it depends on most in the views, as
    many as ``family_cells`` holds, from the table of largest entropy over all of them.

    *Proof.* The views are public. One row is in one cell of each: Δ1 = 1 a view under
    add/remove, times the distance, and w times ε/w is ε, exactly. The rest is post-processing. ∎

    Source: Qardaji, Yang, Li, "PriView" (SIGMOD 2014), whose ℓ and w depend on the number of
    rows, and which answers marginals but draws no rows.
    """

    summary: ClassVar[str] = "noisy tables of a few views that hold every pair of attributes"
    refines: ClassVar[bool] = True

    view_size: int | None = integer(None, at_least=2, at_most=64, measuring=True)
    view_cells: int = integer(256, at_least=4, at_most=1 << 24, measuring=True)
    clique_cells: int = clique_cells(8192)
    family_cells: int = integer(256, at_least=4, at_most=1 << 16)

    def check(self, domain: Domain) -> None:
        super().check(domain)
        sizes = self.sizes(domain)
        for view in self.views(domain):
            if cell_count(view, sizes) > self.clique_cells:
                # No view is of fewer than two attributes.
                remedy = "larger `clique_cells`" if len(view) == 2 else "smaller `view_size`"
                raise DeclarationError(
                    f"PriView measures tables of at most {self.clique_cells} cells, but that "
                    f"of {', '.join(view)} has {cell_count(view, sizes)}: choose coarser levels "
                    f"or bins, or a {remedy}"
                )

    def views(self, domain: Domain) -> tuple[Names, ...]:
        """Return the sets of attributes that ``fit`` measures, by declarations alone."""
        sizes = self.sizes(domain)
        if self.view_size is None:
            most_cells = min(self.view_cells, self.clique_cells)
            return covering_design(sizes, most_cells=most_cells, most_attributes=len(sizes))
        return covering_design(
            sizes, most_cells=prod(sizes.values()), most_attributes=self.view_size
        )

    def most_cells(self, domain: Domain) -> int:
        """Return the number of cells of all views together."""
        sizes = self.sizes(domain)
        return sum(cell_count(view, sizes) for view in self.views(domain))

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy tables of the views, and rows drawn by ``rng`` from them."""
        views = self.views(curator.domain)
        measured = curator.tabulate(dict.fromkeys(views, epsilon / len(views)))
        return self._sample(measured, curator, rng)

    def refine(
        self,
        coarse: Released,  # noqa: ARG002
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: Generator,
    ) -> SyntheticTable:
        """Return a table from the same views with less noise, on each of which an equal share of
        the curator's budget is spent."""
        views = self.views(curator.domain)
        amounts = dict.fromkeys(views, curator.accountant.remaining / len(views))
        return self._sample(curator.refine(amounts), curator, rng)

    def _sample(
        self, measured: tuple[NoisyMarginal, ...], curator: Curator, rng: Generator
    ) -> SyntheticTable:
        sizes, views = self.sizes(curator.domain), self.views(curator.domain)
        tables = view_tables(measured)
        rows = self.rows_to_draw(float(next(iter(tables.values())).sum()))
        network = view_network(tables, sizes, most_cells=self.family_cells)
        codes = sample_network(network, rows, rng, sizes)
        return self.released_table(
            curator.domain, rng, codes, measured, views, overlap_links(views)
        )

    def answer(self, table: SyntheticTable, attributes: Names) -> FloatArray:
        """Return the marginal over some attributes, in rows, that has maximum entropy among those
        that agree with the released views."""
        return max_entropy(attributes, view_tables(table.measured), self.sizes(table.domain))

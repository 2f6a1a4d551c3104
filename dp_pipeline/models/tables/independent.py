"""independent: one-way marginals and their product, the baseline of every table model."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.parameters import choice
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.clique_join import join_cliques
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.junction_tree import JunctionTree
from dp_pipeline.models.base import Released
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.results.accountant import root_weights, split
from dp_pipeline.results.synthetic_table import SyntheticTable


@dataclass(frozen=True)
class Independent(TableModel):
    """One noisy table for each attribute, and synthetic rows with independent attributes.

    shares   ``root``: attribute i gets ε_i ∝ √|Ω_i|, which minimises the total noise;
             ``equal``: all get the same ε

    With constraints, attributes depend on each other as much as these say, and no more.

    *Proof.* One row is in one cell of each table, so table i has Δ1 = 1 under
    add/remove, times the distance, and costs ε_i; Σ ε_i = ε, exactly. Projection
    to the simplex and sampling are post-processing. ∎
    """

    summary: ClassVar[str] = "noisy one-way marginals and synthetic rows of independent attributes"

    keeps_constraints: ClassVar[bool] = True
    refines: ClassVar[bool] = True

    shares: str = choice("root", "equal")

    def most_cells(self, domain: Domain) -> int:
        return sum(domain.shape(self.measured_attributes(domain)))

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy one-way marginals, and rows drawn by ``rng`` from each by itself."""
        amounts = self._amounts(curator.domain, epsilon)
        return self._sample(OneWays.of(curator.tabulate(amounts)), curator, rng)

    def refine(
        self,
        coarse: Released,  # noqa: ARG002
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: Generator,
    ) -> SyntheticTable:
        """Return a table from the same marginals with less noise, on each of which its share of the
        curator's budget is spent."""
        amounts = self._amounts(curator.domain, curator.accountant.remaining)
        return self._sample(OneWays.of(curator.refine(amounts)), curator, rng)

    def _amounts(self, domain: Domain, amount: Fraction) -> dict[Names, Fraction]:
        names = self.measured_attributes(domain)
        weights = root_weights(domain.shape(names)) if self.shares == "root" else (1,) * len(names)
        return {(name,): share for name, share in zip(names, split(amount, weights), strict=True)}

    def _sample(self, one_ways: OneWays, curator: Curator, rng: Generator) -> SyntheticTable:
        sizes, zeros = self.sizes(curator.domain), self.zeros(curator.domain)
        if zeros:
            fitted = FittedRows(one_ways.measured, sizes, zeros=zeros)
            table = fitted.draw_table(tuple(sizes), curator.domain, rng, self.rows_to_draw)
            return self.add_decided(table)
        tree = JunctionTree.of(tuple((name,) for name in sizes), sizes)
        tables: dict[Names, FloatArray] = {(name,): one_ways.shares[name] for name in sizes}
        codes = join_cliques(tree, tables, self.rows_to_draw(one_ways.rows), rng, sizes)
        return self.released_table(curator.domain, rng, codes, one_ways.measured, tree.cliques)

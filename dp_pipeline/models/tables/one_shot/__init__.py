"""one_shot: the default release of a table. Each cell is measured once; what pays is measured.

The model asks for noisy gaps of pairs, searches a plan of tables that pays for its noise
(``plan``), measures its tables (``round``), and fits a tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import ClassVar

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import Domain
from dp_pipeline.config.encoding import Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import choice
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.earlier import EarlierTables, PublicTable
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.models.base import Released, plan_from, prior, require_plan, smooth
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.base import TableModel, clique_cells
from dp_pipeline.models.tables.one_shot.plan import (
    MOST_PACKED,
    Planning,
    Workload,
    workload,
)
from dp_pipeline.models.tables.one_shot.public_rows import PriorRound
from dp_pipeline.models.tables.one_shot.round import (
    MOST_TREE,
    Round,
    amounts_of,
)
from dp_pipeline.results.accountant import split
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable


def _refined(coarse: SyntheticTable, curator: Curator) -> list[NoisyMarginal]:
    """Everything that was measured, in its order, for all that is left."""
    # An amount is to the scale of its noise as 1 to it, in ε and, of a variance, in ρ.
    parts = split(curator.accountant.remaining, [1 / one.scale for one in coarse.measured])
    names = [one.attributes for one in coarse.measured]
    more, found = dict(zip(names, parts, strict=True)), dict[Names, NoisyMarginal]()
    grouped = curator.grouped(coarse.groupings) if coarse.groupings else curator
    for is_table, asked in ((False, curator), (True, grouped)):
        amounts = amounts_of(more, [one for one in names if (len(one) > 1) == is_table])
        if amounts:
            found |= {one.attributes: one for one in asked.refine(amounts)}
    return [found[one] for one in names]


BETTER_PURE = 0.95
"""Pure ε is taken where its noise at ε = 1 is at most this part of Gaussian noise: at ε = 0.05,
where ρ buys more, it is then about as much."""

ROWS = Fraction(1, 100)
FEWEST_ROWS = 50.0


@dataclass(frozen=True)
class OneShot(TableModel):
    """One round of noisy tables, chosen by what they tell for their noise, and a tree fitted.

    attributes       discrete attributes, d of them; all when empty
    synthetic_rows   rows to draw; None: the number that all tables estimate
    clique_cells     most cells of a clique
    plan_from        ``previous``: the tables of the window before are measured again, over the same
                     groups of levels, and nothing is spent on finding them
    smooth           whether those tables are combined with the ones of before
    quality          ``best_plus``: with a declared δ, where not every pair can be measured, the
                     rounds of ``aim_like`` instead: many times slower, better at small ε alone

    workload         what counts more: entries of one to three attributes and a weight, such as
                     ``income 4, age sex 2``: every pair with ``income`` four times, that of
                     ``age`` and ``sex`` twice. Tables that have to be found and shares of the
                     amount follow it; views hold every pair anyway

    prior            a data set with ``purpose: benchmark`` over the same attributes: its rows say
                     which tables to measure, and all that is not measured (``PriorRound``)

    A noisy number of rows first (1 % of the amount). Then, by public sizes and that number:

    * *views*: a covering design that holds every pair, where one clique may hold all attributes
      or all are binary, and a pair's noise is small beside the rows, or beside the noisy mean of
      U_ij = ½‖c_ij − r cᵀ/n‖₁ over all pairs (2 to 10 %);
    * *large*: one-way marginals (8 to 30 %, by how many rows their noise is), the gaps
      G_ij = ‖c_ij − N̂p̂_i p̂_jᵀ‖₁ of all pairs of grouped levels, measured together (3 to 12 %, in
      pure ε by the L∞ mechanism; where the tree of the strongest pairs tells those of the others,
      they are taken to be near to that, ``inference.noisy_gaps``), then the tables of several
      attributes whose gaps, and what they tell of others along paths, are most beside the noise in
      their pairs (``inference.table_sets``). Tables and one-way marginals, which are refined beside
      them or with Gaussian noise measured once more, share what is left so that the error of all
      pairs falls alike with each (``inference.dependence``); the search is made twice, the second
      time with what the tables of the first would get, and of its tables those are kept with which
      the error of all pairs is least;
    * *some*, where the gaps of all pairs would drown in noise, of at most fifty attributes: the
      mean of all gaps (.5 to 6 %), and where that is large beside the noise of one-way marginals
      pairs drawn by their gaps, and the gaps of these (16 %); the others are taken for what is left
      of the mean. Tables are then put together while the error of all pairs falls
      (``inference.table_growth``). Of more attributes pairs are drawn without that mean;
    * *few*, with more noise in one-way marginals and at most thirty attributes: a few pairs and
      their gaps (5 %) without that mean; the rest as in *large*;
    * nothing pays: every attribute once, in tables packed so that all one-way marginals have
      the least noise.

    The tables share all that is left, each by the weight of its noise. One distribution is
    fitted to all noisy tables and rows are drawn from it: near to a few latent classes where noise
    is much of what they tell, and classes most of the rest (``inference.latent_classes``); where
    views are of more attributes than a clique may hold, attribute after attribute, so that all
    pairs fit (``inference.paired_rows``).

    *Proof.* Number of rows and tables: a row is in one cell, over groups of levels too; Δ1 =
    Δ2 = 1 under add/remove, times the distance; a refined marginal costs what is added to it
    (``gate.mechanisms.refine``). U moves by less than 2, a sum of p of them by 2p; against
    released N̂ and p̂ a gap moves by 1, a sum of p of them by p, and all of p together by 1 in L∞
    and by √p in L2. Sizes, groups, views, sets and shares are functions of public and released
    values, and the tables get all that is left, so the total is the amount, exactly. Fit and
    sampling are post-processing. ∎

    Source: this project; its parts are of PriView (covering designs), Private-PGM (fit by a
    graphical model) and AIM (gain beside noise).
    """

    summary: ClassVar[str] = "the tables that tell most for their noise, and a tree fitted to them"
    accounts_in_rho: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True
    refines: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    clique_cells: int = clique_cells(1 << 16)
    quality: str = choice("best", "best_plus")
    plan_from: str = plan_from()
    smooth: str = smooth()
    workload: str = workload()
    prior: str = prior()

    def check(self, domain: Domain) -> None:
        """Also DeclarationError for tables that cannot be smoothed, and a workload of attributes
        that are not modelled.
        """
        super().check(domain)
        self._workload.require_known(self.modelled(domain), of=type(self).__name__)
        require_plan(self.plan_from, self.smooth)
        if self.prior and (self.plans_from_earlier or self.quality != "best"):
            other = "plan_from" if self.plans_from_earlier else "quality"
            raise DeclarationError(
                f"OneShot: prior: expected no `{other}` beside it, got one: tables are chosen by "
                "public rows"
            )

    def is_better_pure(self, domain: Domain, delta: Fraction) -> bool:
        """Whether both kinds of plans that the rows may lead to have less noise."""
        sizes = self.sizes(domain)
        if len(sizes) < 2 or self.quality == "best_plus":
            return False
        pure, concentrated = (
            Planning(
                sizes,
                1.0,
                currency.amount_of(Fraction(1)),
                NoiseRate(currency != PURE, 1),
                self.clique_cells,
            ).total_noise
            for currency in (PURE, Currency(delta))
        )
        both = zip(pure, concentrated, strict=True)
        return all(one <= BETTER_PURE * other for one, other in both)

    def most_cells(self, domain: Domain) -> int:
        """Of all measured tables together, or of all cliques."""
        sizes = self.sizes(domain)
        packed_cells = len(sizes) // 2 * min(MOST_PACKED, self.clique_cells)
        searched = MOST_TREE * max(4, self.clique_cells)
        rounds = self._rounds.most_cells(domain) if self.quality == "best_plus" else 0
        most = max(self._most_viewed(sizes), packed_cells, searched, rounds)
        return 1 + 2 * sum(sizes.values()) + most

    def _most_viewed(self, sizes: Mapping[str, int]) -> int:
        """Of all views, by either kind of noise, or of the clique that holds all attributes."""
        planned = [
            Planning(sizes, 1.0, Fraction(1), NoiseRate(concentrated, 1), self.clique_cells)
            for concentrated in (False, True)
        ]
        if not planned[0].pairs or not planned[0].is_coverable:
            return 0
        viewed = [sum(prod(sizes[n] for n in view) for view in one.views) for one in planned]
        return max(*viewed, prod(sizes.values()) if planned[0].is_small else 0)

    @property
    def _workload(self) -> Workload:
        return Workload.of(self.workload) or Workload()

    def sizes(self, domain: Domain) -> dict[str, int]:
        """Levels of the measured attributes that have two or more."""
        names = self.modelled(domain)
        shape = zip(names, domain.shape(names), strict=True)
        return {name: size for name, size in shape if size > 1}

    @property
    def _rounds(self) -> AimLike:
        """``aim_like`` under this cap, or under its own where that is less."""
        return AimLike(
            attributes=self.attributes,
            synthetic_rows=self.synthetic_rows,
            clique_cells=min(self.clique_cells, AimLike.clique_cells),
        )

    def _takes_rounds(self, curator: Curator, sizes: Mapping[str, int]) -> bool:
        """By public sizes alone: nothing was paid for yet."""
        if self.quality == "best" or curator.currency == PURE or len(sizes) < 2:
            return False
        rate = NoiseRate(True, curator.distance)
        planning = Planning(sizes, 1.0, Fraction(1), rate, self.clique_cells)
        return not planning.is_coverable

    def fit(
        self,
        curator: Curator,
        *,
        epsilon: Fraction,
        rng: np.random.Generator,
    ) -> SyntheticTable:
        """Noisy tables, and rows drawn from the distribution fitted to them; spends all that the
        accountant has, which is ``epsilon`` where no δ is declared.
        """
        sizes = self.sizes(curator.domain)
        if self._takes_rounds(curator, sizes):
            return self._rounds.fit(curator, epsilon=epsilon, rng=rng)
        return self._drawn(self._begun(curator).fitted(), curator.domain, rng)

    def fit_after(
        self,
        earlier: Tables,
        curator: Curator,
        *,
        epsilon: Fraction,
        rng: np.random.Generator,
    ) -> SyntheticTable:
        """The same with the tables of an earlier release; cold where those are not stored.

        *Proof.* Tables, groups and shares are functions of released numbers. Each table costs what
        it is given: Δ1 = Δ2 = 1 a row, over groups of levels too; smoothing is post-processing. ∎
        """
        domain, sizes = curator.domain, self.sizes(curator.domain)
        known = EarlierTables.of(earlier, domain)
        if (
            known is None
            or {name for one in known.measured for name in one.attributes} != set(sizes)
            or not sizes
            or self._takes_rounds(curator, sizes)
        ):
            return self.fit(curator, epsilon=epsilon, rng=rng)
        again = self._begun(curator).again(known, smooths=self.smooth == "true")
        return self._drawn(again, domain, rng)

    def fit_with_public_rows(
        self,
        public: PublicTable,
        curator: Curator,
        *,
        epsilon: Fraction,
        rng: np.random.Generator,
    ) -> SyntheticTable:
        """The same with tables that public rows choose, combined with theirs.

        *Proof.* Tables, groups and shares are functions of released numbers and of public rows;
        each table costs what it is given: Δ1 = Δ2 = 1 a row. The rest is post-processing. ∎
        """
        domain, sizes = curator.domain, self.sizes(curator.domain)
        if not sizes:
            return self.fit(curator, epsilon=epsilon, rng=rng)
        round_ = self._begun(curator)
        if round_.planning.knows_all_pairs:
            return self._drawn(round_.fitted(), domain, rng)
        known = PublicTable({name: public.codes[name] for name in sizes}, sizes)
        return self._drawn(PriorRound(round_, known).fitted(), domain, rng)

    def _begun(self, curator: Curator) -> Round:
        """A noisy number of rows, and what is planned with it."""
        sizes, amount = self.sizes(curator.domain), curator.accountant.remaining
        counted = curator.tabulate({(): amount * ROWS if sizes else amount})[0]
        rate = NoiseRate(curator.currency != PURE, curator.distance)
        rows = max(FEWEST_ROWS, float(counted.table))
        planning = Planning(sizes, rows, amount, rate, self.clique_cells)
        zeros, weights = self.zeros(curator.domain), self._workload.weights(sizes)
        return Round(curator, planning, counted, zeros, weights)

    def refine(
        self,
        coarse: Released,
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> SyntheticTable:
        """Every table that the release at a smaller ε has measured, refined; which tables those
        are is not asked again. What each gets of what is added is as much as it got of the tables'
        part then.
        """
        assert isinstance(coarse, SyntheticTable)
        domain, sizes = curator.domain, self.sizes(curator.domain)
        if self.prior:
            raise DeclarationError(
                "OneShot: prior: expected none for a release that is refined, got one"
            )
        if self._takes_rounds(curator, sizes):
            raise DeclarationError(
                "OneShot: quality: expected `best` for a release that is refined, got `best_plus`, "
                "whose rounds end with the amount"
            )
        measured = _refined(coarse, curator)
        singles = [one for one in measured if len(one.attributes) == 1] if coarse.groupings else []
        tables = [one for one in measured[1:] if len(one.attributes) > 1 or not singles]
        fitted = FittedRows(
            (measured[0], *tables),
            sizes,
            OneWays.of(singles, measured[0]) if singles else None,
            coarse.groupings,
            self.clique_cells,
            self.zeros(domain),
        )
        return self._drawn(fitted, domain, rng)

    def _drawn(
        self, fitted: FittedRows, domain: Domain, rng: np.random.Generator
    ) -> SyntheticTable:
        table = fitted.table(self.modelled(domain), domain, rng, self.rows_to_draw)
        return self.with_decided(table)

"""one_shot: the default release of a table. All tables are chosen at once, by one objective: the
expected error of all pairs of attributes (``plan``, ``inference.expected_error``).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, prod
from typing import ClassVar

from numpy.random import Generator

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import SIZE, UNIT_WEIGHT, Domain
from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import choice
from dp_pipeline.gate.curator import Curator
from dp_pipeline.inference.clique_join import overlap_links
from dp_pipeline.inference.earlier import PublicTable, StoredTables
from dp_pipeline.inference.fitted_tree import FittedRows, OneWays
from dp_pipeline.inference.junction_tree import cell_count
from dp_pipeline.models.base import Released, plan_from, prior, require_plan, smooth
from dp_pipeline.models.tables.aim_like import AimLike
from dp_pipeline.models.tables.base import ExpectedPairs, TableModel, clique_cells
from dp_pipeline.models.tables.one_shot.plan import ROWS_SHARE, Planning
from dp_pipeline.models.tables.one_shot.public_rows import PriorRound
from dp_pipeline.models.tables.one_shot.round import FEWEST_ROWS, Round, amounts_of
from dp_pipeline.models.tables.one_shot.units import (
    PAIRS_SHARE,
    UnitRelease,
    measure_pairs,
    with_parts_of_pairs,
)
from dp_pipeline.models.tables.one_shot.workload import Workload, workload, workload_of_targets
from dp_pipeline.results.accountant import split
from dp_pipeline.results.clusters import Tables
from dp_pipeline.results.measurement import NoiseRate, NoisyMarginal
from dp_pipeline.results.synthetic_table import SyntheticTable


def _refine_tables(coarse: SyntheticTable, curator: Curator) -> list[NoisyMarginal]:
    """Spend the whole remaining budget on less noise in all measured tables; return these in their
    order."""
    # An amount is to the scale of its noise as 1 to it, in ε and, of a variance, in ρ.
    parts = split(curator.accountant.remaining, [1 / table.scale for table in coarse.measured])
    names = [table.attributes for table in coarse.measured]
    amount_of, refined = dict(zip(names, parts, strict=True)), dict[Names, NoisyMarginal]()
    grouped = curator.grouped(coarse.groupings) if coarse.groupings else curator
    for is_table, source in ((False, curator), (True, grouped)):
        amounts = amounts_of(amount_of, [name for name in names if (len(name) > 1) == is_table])
        if amounts:
            refined |= {marginal.attributes: marginal for marginal in source.refine(amounts)}
    return [refined[name] for name in names]


@dataclass(frozen=True)
class OneShot(TableModel):
    """One round of noisy tables, chosen together for the least expected error, and a tree fitted to
    them.

    clique_cells   most cells of a clique
    plan_from      ``previous``: the tables of the window before are measured again, over the same
                   groups of levels, and nothing is spent on finding them
    smooth         whether those tables are combined with the ones of before
    quality        ``best``; or ``best_plus``: with a declared δ, where not every pair can be
                   measured, the rounds of ``aim_like`` instead: many times slower, better at
                   small ε alone
    workload       weights of pairs: entries of one to three attributes and a weight. With
                   ``income 4, age sex 2`` the error of every pair with ``income`` counts four
                   times, that of ``age`` and ``sex`` twice
    prior          a data set with ``purpose: benchmark`` over the same attributes: its rows say
                   which tables to measure, and stand for all that is not (``PriorRound``)

    The error of a plan is E = Σ w_ij √(o_i² + o_j² + q_ij² + b_ij²) over all pairs, in rows: noise
    of the one-way marginals, of the table that holds the pair, and dependence that no table
    explains; w is the workload. Declared ``targets`` and a ``label`` are one: their pairs count
    four times. As AIM it selects tables, measures them and fits a tree, but in one round.

    1. A noisy number of rows N, for 1 % of the amount.
    2. The plan with the least E, from sizes and N. The mean dependence of all pairs may be .05, .15
       or .4 of the rows; for each case dependence and the scores that a plan would see of it are
       drawn. Tables are chosen by those scores, and E is taken with the dependence. The noisy mean
       is bought where knowing it gains more than it costs.
    3. Tables come from one of three generators.
       *Packed*: every attribute once, with the least noise in one-way marginals; flat where all of
       them are no further from flat than their noise.
       *A covering design* (PriView) holds every pair, where one clique may hold all attributes or
       all are binary.
       *Growth*: one-way marginals, which also say which levels are grouped; scores
       G_ij = ‖c_ij − N̂p̂_i p̂_jᵀ‖₁ over the groups, of all pairs at once (L∞ mechanism), of those
       that count more by the workload, or of four that noisy max (for a ρ the exponential
       mechanism) picks by G less the noise in it;
       then pairs, and unions of them, as long as E falls; a covering design where pairs outside
       the tree would leave most of the error (``inference.table_growth``). A score is
       taken for what it is likely to be given its noise, by itself or near to what the tree of the
       strongest pairs predicts, as the noisy scores are likelier (``inference.noisy_scores``).
    4. These tables, and one-way marginals refined alongside (measured again where units have
       parts), share what is left with the least E (``inference.expected_error``). One distribution
       is fitted to all and rows are drawn from it: near to a few latent classes where noise is much
       of what tables say (``inference.latent_classes``); where a covering design is of more
       attributes than a clique may hold, attribute after attribute, so that all pairs fit
       (``inference.paired_rows``).

    Tables have the level of missing values of every attribute, and plans are made as if no row had
    one. Where its noisy rows are not above their noise, it is left out of what is fitted
    (``inference.missing_levels``): an open level that no row needs costs next to nothing.

    *Proof.* Number of rows and tables: a row is in one cell, over groups of levels too; Δ1 =
    Δ2 = 1 under add/remove, times the distance; a refined marginal costs what is added to it
    (``gate.mechanisms.refinement_query``). The mean dependence is that of
    U_ij = ½‖c_ij − r cᵀ/n‖₁, which moves by less than 2, so a sum of p of them moves by less than
    2p. Against released N̂ and p̂ a score moves by 1, and m of them by 1 in L∞ and by √m in L2; noisy
    max, with public penalties, pays for scores that move by 1, pick by pick. Plans, groups, tables
    and shares are functions of public and released values, and the tables get all that is left, so
    the total is the amount, exactly. Fit and sampling are post-processing. ∎

    Source: this project (docs/design/one_shot.md says what each part brings); its parts are of
    PriView (covering designs), Private-PGM (fit by a graphical model), AIM (gain against noise).
    """

    summary: ClassVar[str] = (
        "the tables that leave the least expected error, and a tree fitted to them"
    )
    accounts_in_rho: ClassVar[bool] = True
    keeps_constraints: ClassVar[bool] = True
    refines: ClassVar[bool] = True
    releases_units: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    clique_cells: int = clique_cells(1 << 16)
    quality: str = choice("best", "best_plus")
    plan_from: str = plan_from()
    smooth: str = smooth()
    workload: str = workload()
    prior: str = prior()

    def check(self, domain: Domain) -> None:
        super().check(domain)
        if domain.parts is not None:
            self._check_units(domain)
        self._workload.require_modelled(self.measured_attributes(domain), of=type(self).__name__)
        require_plan(self.plan_from, self.smooth)
        if self.prior and (self.plans_from_earlier or self.quality != "best"):
            other = "plan_from" if self.plans_from_earlier else "quality"
            raise DeclarationError(
                f"OneShot chooses tables by the public rows of `prior`, so `{other}` has no "
                "effect with it: leave one of them out"
            )

    def _check_units(self, domain: Domain) -> None:
        """Raise DeclarationError for parameters that do not apply to units with parts."""
        if self.prior or self.quality != "best":
            other = "prior" if self.prior else "quality"
            raise DeclarationError(
                f"OneShot cannot use `{other}` where the protected units have parts: leave it out"
            )
        if SIZE not in self.chosen_attributes(domain):
            raise DeclarationError(
                f"OneShot must have {SIZE!r} in its `attributes` where the protected units have "
                "parts: add it, or leave `attributes` out"
            )
        sizes = self.sizes(domain)
        if max(sizes.values()) == 2 and prod(sizes.values()) > self.clique_cells:
            raise DeclarationError(
                "OneShot needs an attribute of three levels or more where the protected units have "
                f"parts and the table of all attributes has more than {self.clique_cells:,} cells, "
                "but all have two levels: declare more levels, or a larger `clique_cells`"
            )

    def for_targets(self, names: Names, domain: Domain) -> "OneShot":
        """Return the model with more weight on the attributes to predict, unless it declares a
        workload."""
        targets = [name for name in names if name in self.measured_attributes(domain)]
        return self if self.workload else replace(self, workload=workload_of_targets(targets))

    def is_better_pure(self, domain: Domain, delta: Fraction) -> bool:
        """Return whether pure ε has less noise, at ε = 1, both for packed tables and for a covering
        of pairs; False for fewer than two attributes with several levels, and for ``best_plus``."""
        if len(self.sizes(domain)) < 2 or self.quality == "best_plus":
            return False
        pure, concentrated = (
            self._planning(
                domain, 1.0, currency.amount_of(Fraction(1)), NoiseRate(currency != PURE, 1)
            ).noise_of_two_plans
            for currency in (PURE, Currency(delta))
        )
        both = zip(pure, concentrated, strict=True)
        return all(pure_noise < other for pure_noise, other in both)

    def expected_pairs(
        self, domain: Domain, rows: int, amount: Fraction, rate: NoiseRate
    ) -> ExpectedPairs | None:
        """Return the numbers of pairs that the best plan should measure in so many rows, with the
        mean error of a pair in most data sets; None for fewer than two attributes with several
        levels, and for ``best_plus``."""
        sizes = self.sizes(domain)
        if len(sizes) < 2 or self.quality != "best":
            return None
        if domain.parts is not None:
            amount *= 1 - PAIRS_SHARE
        weights = self._workload.weights(sizes)
        planning = self._planning(domain, max(1.0, rows), amount, rate, weights)
        middle = planning.errors.shape[1] // 2
        of_all = 2 * planning.rows * float(planning.independent.pair_weights.sum())
        error = float(planning.errors[:, middle].min()) / of_all
        return ExpectedPairs(planning.measured_pairs(), comb(len(sizes), 2), error)

    def most_cells(self, domain: Domain) -> int:
        """Return a bound on the cells of all measured tables together and of all fitted cliques."""
        sizes = self.sizes(domain)
        searched = 2 * max(4, self.clique_cells)
        rounds = self._rounds.most_cells(domain) if self.quality == "best_plus" else 0
        most = max(searched, rounds)
        # Packed tables, a covering design and one table of all attributes, as planned for Laplace
        # and for Gaussian noise.
        for concentrated in (False, True) if sizes else ():
            planning = self._planning(domain, 1.0, Fraction(1), NoiseRate(concentrated, 1))
            is_coverable = planning.pairs and planning.is_coverable
            for tables in (planning.packed, planning.covering if is_coverable else ()):
                most = max(most, sum(cell_count(names, sizes) for names in tables))
            if is_coverable and planning.is_small:
                most = max(most, min(prod(sizes.values()), self.clique_cells))
        return 1 + 2 * sum(sizes.values()) + most

    @property
    def _workload(self) -> Workload:
        return Workload.of(self.workload) or Workload()

    def sizes(self, domain: Domain) -> dict[str, int]:
        """Return the number of levels of the measured attributes that have two or more."""
        names = self.measured_attributes(domain)
        shape = zip(names, domain.shape(names), strict=True)
        return {name: size for name, size in shape if size > 1}

    def _nullable(self, domain: Domain) -> dict[str, int]:
        """Return the number of levels, that of missing values included, of each attribute in which
        plans expect no missing value.

        These are the nullable attributes without constraints that have two other levels or more;
        none where units have parts.
        """
        sizes = {} if domain.parts else self.sizes(domain)
        constrained = {name for entry in self.zeros(domain).allowed for name in entry.names}
        return {
            name: size
            for name, size in sizes.items()
            if size > 2 and domain[name].nullable and name not in constrained
        }

    def _planning(
        self,
        domain: Domain,
        rows: float,
        amount: Fraction,
        rate: NoiseRate,
        weights: FloatArray | None = None,
    ) -> Planning:
        nullable = self._nullable(domain)
        sizes = {name: size - (name in nullable) for name, size in self.sizes(domain).items()}
        return Planning(sizes, rows, amount, rate, self.clique_cells, weights, nullable)

    @property
    def _rounds(self) -> AimLike:
        return AimLike(
            attributes=self.attributes,
            synthetic_rows=self.synthetic_rows,
            clique_cells=min(self.clique_cells, AimLike.clique_cells),
        )

    def _takes_rounds(self, curator: Curator) -> bool:
        """Return whether ``quality`` makes a fit use the rounds of ``aim_like``; public sizes and
        the currency decide."""
        domain, rate = curator.domain, NoiseRate(True, curator.distance)
        if self.quality == "best" or curator.currency == PURE or len(self.sizes(domain)) < 2:
            return False
        return not self._planning(domain, 1.0, Fraction(1), rate).is_coverable

    def fit(self, curator: Curator, *, epsilon: Fraction, rng: Generator) -> SyntheticTable:
        """Return noisy tables, and rows drawn by ``rng`` from the distribution fitted to them."""
        if curator.domain.parts is not None:
            return self._fit_units(curator, rng)
        if self._takes_rounds(curator):
            return self._rounds.fit(curator, epsilon=epsilon, rng=rng)
        return self._draw_table(self._start(curator).measure_and_fit(), curator.domain, rng)

    def _fit_units(self, curator: Curator, rng: Generator) -> SyntheticTable:
        """Return synthetic rows of parts, those of a unit together, and the noisy tables; spend the
        whole budget.

        *Proof.* A unit weighs at most ``UNIT_WEIGHT`` in each table, which is the distance; shares
        are public and all add up to the amount. The rest is post-processing. ∎
        """
        domain = curator.domain
        pairs = measure_pairs(curator, self.sizes(domain))
        measured = self._start(curator).measure_and_fit()
        is_set = domain.parts is not None and not domain.parts.order
        fitted = with_parts_of_pairs(measured, pairs) if is_set else measured
        names = self.measured_attributes(domain)
        codes = UnitRelease(domain, fitted, pairs).draw_rows(names, self.synthetic_rows, rng)
        links = overlap_links(fitted.cliques)
        table = self.released_table(
            domain, rng, codes, (), fitted.cliques, links, groupings=fitted.groupings
        )
        weighted = (*measured.measured_in_order, *pairs)
        return replace(table, weighted=weighted, dependence=dict(fitted.dependence))

    def fit_after(
        self, earlier: Tables, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> SyntheticTable:
        """Return a release that measures the tables of an earlier release again.

        It is planned as by ``fit`` where ``earlier`` lacks them, or has other attributes or
        levels, and for rounds of ``best_plus``.

        *Proof.* Tables, groups and shares are functions of released numbers. Each table costs what
        it is given: Δ1 = Δ2 = 1 a row, over groups of levels too; smoothing is post-processing. ∎
        """
        domain, sizes = curator.domain, self.sizes(curator.domain)
        known = StoredTables.of(earlier, domain)
        if (
            known is None
            or {name for table in known.measured for name in table.attributes} != set(sizes)
            or not sizes
            or self._takes_rounds(curator)
        ):
            return self.fit(curator, epsilon=epsilon, rng=rng)
        again = self._start(curator).measure_again(known, smooths=self.smooth == "true")
        return self._draw_table(again, domain, rng)

    def fit_with_public_rows(
        self, public: PublicTable, curator: Curator, *, epsilon: Fraction, rng: Generator
    ) -> SyntheticTable:
        """Return a release whose tables are chosen by public rows, and combined with the same
        tables of the public rows.

        The public rows have no influence where the best plan measures all pairs, or no attribute
        has two levels.

        *Proof.* Tables, groups and shares are functions of released numbers and of public rows;
        each table costs what it is given: Δ1 = Δ2 = 1 a row. The rest is post-processing. ∎
        """
        domain, sizes = curator.domain, self.sizes(curator.domain)
        if not sizes:
            return self.fit(curator, epsilon=epsilon, rng=rng)
        round_ = self._start(curator)
        if round_.planning.measures_all_pairs:
            return self._draw_table(round_.measure_and_fit(), domain, rng)
        known = PublicTable({name: public.codes[name] for name in sizes}, sizes)
        return self._draw_table(PriorRound(round_, known).measure_and_fit(), domain, rng)

    def _start(self, curator: Curator) -> Round:
        """Measure the number of rows for 1 % of the budget, or for all of it if no attribute has
        two levels; return the round planned with it."""
        sizes, amount = self.sizes(curator.domain), curator.accountant.remaining
        counted = curator.tabulate({(): amount * ROWS_SHARE if sizes else amount})[0]
        rate = NoiseRate(curator.currency != PURE, curator.distance)
        fewest = FEWEST_ROWS * (UNIT_WEIGHT if curator.domain.parts else 1)
        rows = max(fewest, float(counted.table))
        weights = self._workload.weights(sizes)
        planning = self._planning(curator.domain, rows, amount, rate, weights)
        return Round(curator, planning, counted, self.zeros(curator.domain))

    def refine(
        self,
        coarse: Released,
        curator: Curator,
        *,
        epsilon: Fraction,  # noqa: ARG002
        rng: Generator,
    ) -> SyntheticTable:
        """Return a release from the tables of ``coarse``, on each of which more is spent in
        proportion to what it cost; no table is chosen again.

        DeclarationError with a ``prior``, for rounds of ``best_plus``, and for units with parts."""
        assert isinstance(coarse, SyntheticTable)
        domain, sizes = curator.domain, self.sizes(curator.domain)
        if self.prior:
            raise DeclarationError(
                "OneShot cannot refine a release that has a `prior`: pay for a new draw instead"
            )
        if self._takes_rounds(curator):
            raise DeclarationError(
                "OneShot refines releases of quality `best`, not `best_plus`, whose number "
                "of rounds depends on ε: pay for a new draw instead"
            )
        if domain.parts is not None:
            raise DeclarationError(
                "OneShot cannot refine a release of units with parts: pay for a new draw instead"
            )
        measured = _refine_tables(coarse, curator)
        singles = (
            [table for table in measured if len(table.attributes) == 1] if coarse.groupings else []
        )
        tables = [table for table in measured[1:] if len(table.attributes) > 1 or not singles]
        fitted = FittedRows(
            (measured[0], *tables),
            sizes,
            OneWays.of(singles, measured[0]) if singles else None,
            coarse.groupings,
            self.clique_cells,
            self.zeros(domain),
            dependence=coarse.dependence,
        )
        return self._draw_table(fitted, domain, rng)

    def _draw_table(self, fitted: FittedRows, domain: Domain, rng: Generator) -> SyntheticTable:
        nullable = [n for n, size in self._nullable(domain).items() if size == fitted.sizes[n]]
        drawn_from = fitted.without_missing(nullable)
        table = drawn_from.draw_table(
            self.measured_attributes(domain), domain, rng, self.rows_to_draw
        )
        return self.add_decided(replace(table, groupings=dict(fitted.groupings)))

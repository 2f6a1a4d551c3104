"""Planning: the plans of one_shot, compared by the error of all pairs that each would leave.

Post-processing: everything here is public or was released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import comb, sqrt

import numpy as np

from dp_pipeline.config.constraints import Mask
from dp_pipeline.config.encoding import FloatArray, IntArray, Names
from dp_pipeline.inference.dependence import Dependence
from dp_pipeline.inference.expected_error import ExpectedError
from dp_pipeline.inference.junction_tree import cell_count
from dp_pipeline.inference.noisy_scores import CubeNoise, NoisyScores, NormalNoise, ScoreNoise
from dp_pipeline.inference.packing import pack_tables
from dp_pipeline.inference.table_growth import BATCH, FIRST_PAIRS, MAX_TABLE_CELLS
from dp_pipeline.inference.views import covering_design
from dp_pipeline.results.measurement import NoiseRate

Pair = tuple[str, str]

ROWS_SHARE = Fraction(1, 100)  # tuned: share of the amount that buys the number of rows

MEAN_DEPENDENCE = (0.05, 0.15, 0.4)
"""Mean dependence of all pairs, as a share of the rows, of the tables that plans are made for, each
as likely as the others. Measured, not tuned: sixteen tables have .04 to .40."""

ONE_WAY_SHARE = Fraction(15, 100)
SCORE_SHARES = (Fraction(6, 100), Fraction(12, 100))
"""Tuned: share of the amount that is spent on one-way marginals before there are scores, and shares
that may be spent on scores."""

MEAN_SHARE = SCORE_SHARES[0]
"""Share of the amount that may be spent on the mean dependence: as much as on scores, at least."""

PICKS = 4  # tuned: pairs that may be picked in place of scores of all

PICKED_PART = Fraction(PICKS, PICKS + 1)
"""The picks' part of that price: each costs as much as the scores of all of them."""

ERROR_OF_SCORES = 0.75
"""Mean of |noise| in standard deviations: by definition √½ for Laplace and √(2/π) for Gaussian
noise, in between for sums."""

FEW_GROUPS = 4
"""Tuned: groups of an attribute's levels in a measured table, about, where noise is strong."""


@dataclass(frozen=True)
class Plan:
    """A plan of what is measured after the number of rows.

    tables        tables to measure at once; none where scores choose them
    is_covering   whether the tables are a covering design, and not packed ones
    scores        share of the budget for scores
    scored        which pairs get scores: ``all``, those that are ``picked`` by large scores, or the
                  ``heaviest``, which count more than others by the workload
    """

    tables: tuple[Names, ...] = ()
    is_covering: bool = False
    scores: Fraction = Fraction(0)
    scored: str = "all"


@dataclass(frozen=True)
class Planning:
    """The comparison of plans by their expected error, from public and released numbers alone.

    sizes     levels of every attribute in which rows are expected, each at least 2
    rows      noisy number of rows, at least 1
    amount    budget of the whole release
    rate      noise that an amount buys
    cap       most cells of a clique
    weights   (d, d) weights of the errors of pairs; None where all count alike
    nullable  attribute → its levels in tables, one more than in ``sizes``: that of missing values
    """

    sizes: Mapping[str, int]
    rows: float
    amount: Fraction
    rate: NoiseRate
    cap: int
    weights: FloatArray | None = None
    nullable: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def table_sizes(self) -> dict[str, int]:
        """The number of levels of each attribute in measured tables, that of missing values
        included."""
        return {**self.sizes, **self.nullable}

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of attributes whose table fits into a clique."""
        return [pair for pair in combinations(self.sizes, 2) if self.fits(pair)]

    def fits(self, names: Names) -> bool:
        """Return whether the table over some attributes is small enough to be measured."""
        return cell_count(names, self.table_sizes) <= self.cap

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """All plans to compare: packed tables, a covering design, and scores at several prices."""
        plans = [Plan(self.packed)]
        if self.pairs and self.is_coverable:
            plans.append(Plan(self.covering, is_covering=True))
        if self.pairs:
            plans += [
                Plan((), False, share, scored)
                for share in SCORE_SHARES
                for scored in ("all", "picked", "heaviest")
                if scored != "heaviest" or self.heaviest
            ]
        return tuple(plans)

    @cached_property
    def heaviest(self) -> list[Pair]:
        """The pairs that have more than the least weight; empty if all weights are equal."""
        is_heavy = dict(zip(combinations(self.sizes, 2), self._is_heavy.tolist(), strict=True))
        return [pair for pair in self.pairs if is_heavy[pair]]

    @cached_property
    def _is_heavy(self) -> Mask:
        weights = self.independent.pair_weights
        return np.asarray(weights > weights.min(initial=np.inf))

    @property
    def means(self) -> list[float]:
        """The possible mean dependences of all pairs, in rows."""
        return [share * self.rows for share in MEAN_DEPENDENCE]

    @cached_property
    def errors(self) -> FloatArray:
        """The error of all pairs, in rows, that each plan leaves at each mean dependence (plans,
        means)."""
        return np.array([[self.error_of(plan, mean) for mean in self.means] for plan in self.plans])

    def error_of(self, plan: Plan, mean: float) -> float:
        """Return the error of all pairs, in rows, that a plan would leave at a mean dependence of
        ``mean`` rows."""
        if not plan.tables:
            return self.error_of_scores(plan, mean)
        if plan.is_covering:
            return self.error_of_covering(plan.tables)
        model = self.error_model(self.foreseen_dependence(mean))
        return model.least_error(plan.tables, self.late_amount, singles=False)

    def choose(self, likelihoods: FloatArray | None = None) -> Plan:
        """Return the plan with the least expected error.

        likelihoods   (means,) likelihood of each possible mean dependence; None: all are alike
        """
        chances = np.ones(len(MEAN_DEPENDENCE)) if likelihoods is None else likelihoods
        return self.plans[int(np.argmin((self.errors * chances).sum(axis=1)))]

    @cached_property
    def mean_share(self) -> Fraction:
        """The share of the budget to pay for the noisy mean dependence; 0 if knowing it would not
        lower the expected error."""
        # Noise at its octiles, by Laplace's distribution for either kind of noise.
        chances = (np.arange(8) + 0.5) / 8
        noise = np.where(chances < 0.5, np.log(2 * chances), -np.log(2 - 2 * chances))
        total = 0.0
        for errors, mean in zip(self.errors.T, self.means, strict=True):
            for noisy in (mean + noise * self.mean_scale).tolist():
                likely = (self.errors * self.likelihoods(noisy)).sum(axis=1)
                total += float(errors[int(np.argmin(likely))])
        # Errors fall with the amount at most as fast as noise does.
        error_with_mean = total / len(noise) / len(self.means) / (1 - float(MEAN_SHARE))
        pays = error_with_mean < float(self.errors.mean(axis=1).min())
        return MEAN_SHARE if pays else Fraction(0)

    @property
    def mean_scale(self) -> float:
        """The scale, in rows, of the noise that ``MEAN_SHARE`` of the budget leaves in the mean
        dependence.

        A row moves each U, half of a dependence, by less than 2."""
        return self.rate.scale(4.0, float(self.amount * MEAN_SHARE))

    def likelihoods(self, noisy: float) -> FloatArray:
        """Return the likelihood of a noisy mean, in rows, for each possible mean dependence, up to
        a factor (means,)."""
        off = np.abs(noisy - np.array(self.means)) / self.mean_scale
        return np.asarray(np.exp(off.min() - off))

    @property
    def late_amount(self) -> float:
        """The ε or ρ that is left after the number of rows."""
        return float(self.amount * (1 - ROWS_SHARE))

    @cached_property
    def independent(self) -> ExpectedError:
        """The error model if no two attributes depend on each other."""
        return self.error_model(0.0)

    def error_model(self, pairs: FloatArray | float) -> ExpectedError:
        """Return the error model of all pairs.

        pairs   (pairs,) the dependence of each, in rows, or one number for all
        """
        d = len(self.sizes)
        scores, (first, second) = np.zeros((d, d)), np.triu_indices(d, 1)
        scores[first, second] = scores[second, first] = pairs
        dependence = Dependence(tuple(self.sizes), scores, np.zeros((d, d)))
        return ExpectedError(self.sizes, self.sizes, {}, dependence, self.rate, self.weights)

    def measured_pairs(self) -> tuple[int, ...]:
        """Return how many pairs the tables of the best plan are expected to contain: without
        dependence, with that of most data sets, and with a strong one.

        Without dependence, noise in scores is read as a weak one. Where scores choose tables, each
        is of one pair: unions are known from scores alone.
        """
        best, overall = self.errors.argmin(axis=0).tolist(), self.choose()
        plans = [self.plans[place] if self.mean_share else overall for place in best]
        dependences = [self.foreseen_dependence(mean) for mean in self.means]
        dependences[0] = np.zeros_like(dependences[0])
        pair_counts = []
        for plan, mean, true in zip(plans, self.means, dependences, strict=True):
            if plan.tables:
                pairs = {pair for table in plan.tables for pair in combinations(table, 2)}
                pair_counts.append(len(pairs))
                continue
            error, order, amount = self._after_scores(plan, mean, true)[1:]
            # The first pairs of the order, whose tables share the amount: the number that leaves
            # the least error. Numbers are tried in batches to save memory.
            counts = range(min(len(order), FIRST_PAIRS) + 1)
            batches = (counts[start : start + BATCH] for start in counts[::BATCH])
            errors = [error.errors_by_pair_count(order, batch, amount) for batch in batches]
            pair_counts.append(int(np.argmin(np.concatenate(errors))))
        return tuple(pair_counts)

    def error_of_scores(self, plan: Plan, mean: float) -> float:
        """Return the error of all pairs, in rows, that a plan with scores would leave at a mean
        dependence.

        After the scores none, d or 2·d pairs are measured, d the number of attributes: whichever
        leaves the least error by the scores."""
        true = self.foreseen_dependence(mean)
        actual, expected, order, amount = self._after_scores(plan, mean, true)
        counts = [0, len(self.sizes), 2 * len(self.sizes)]
        best = int(np.argmin(expected.errors_by_pair_count(order, counts, amount)))
        return float(actual.errors_by_pair_count(order, counts[best : best + 1], amount)[0])

    def _after_scores(
        self, plan: Plan, mean: float, true: FloatArray
    ) -> tuple[ExpectedError, ExpectedError, IntArray, float]:
        """Return two error models after scores, the positions of pairs in the order in which they
        should be measured, and the budget for tables.

        The first model has the dependence ``true``, the second that expected after noisy scores.

        mean   mean dependence, in rows, that is assumed when scores are read
        true   (pairs,) the dependence of every pair, in rows

        The noise is always drawn alike. Tables of the best pairs alone are compared.
        """
        model, levels = self.independent, self.independent.levels
        first, second = model.first, model.second
        late = float(self.amount * (1 - ROWS_SHARE - ONE_WAY_SHARE - plan.scores))
        groups = np.clip(np.rint(1 / self.least_share(late)), 2, levels)
        shares = np.array([self.rate.relative_share(size) for size in levels])
        paid = float(self.amount * ONE_WAY_SHARE) * shares / shares.sum()
        variances = np.array([self.rate.variance(part) for part in paid.tolist()])
        variances = variances * levels / groups * (1 - 1 / groups)
        squares = variances[first] / groups[second] ** 2 + variances[second] / groups[first] ** 2
        floor = ERROR_OF_SCORES * groups[first] * groups[second] * np.sqrt(squares)
        penalty = floor + self.table_noise(groups[first] * groups[second], late)
        # The floor is a sum of |noise| of so many numbers, each of this squared relative error.
        relative = (1 / ERROR_OF_SCORES**2 - 1) / (groups[first] + groups[second])
        unsure = float((floor**2 * relative).mean())
        likely = self._expected_dependence(plan, mean, true, floor, unsure, penalty)
        grouped = dict(zip(self.sizes, groups.astype(int).tolist(), strict=True))
        paid_by_name = dict(zip(self.sizes, paid.tolist(), strict=True))
        expected, actual = (
            replace(self.error_model(rows), grouped=grouped, paid=paid_by_name)
            for rows in (likely, true)
        )
        cost = ((groups[first] - 1) * (groups[second] - 1) * groups[first] * groups[second]) ** 0.25
        order = np.argsort(-likely * model.pair_weights / cost, kind="stable")
        return actual, expected, order, late

    def _expected_dependence(
        self,
        plan: Plan,
        mean: float,
        true: FloatArray,
        floor: FloatArray,
        unsure: float,
        penalty: FloatArray,
    ) -> FloatArray:
        """Return the dependence of every pair (pairs,), in rows, expected after noisy scores.

        floor     (pairs,) the part of each score that noise of one-way marginals causes, in rows
        unsure    variance of that part
        penalty   (pairs,) what noisy max subtracts from each score that may be picked, in rows
        """
        noiseless, share, pairs = np.hypot(true, floor), plan.scores, np.arange(len(true))
        unit = self._foreseen[1]
        if plan.scored == "heaviest":
            pairs = np.flatnonzero(self._is_heavy)
        elif plan.scored == "picked":
            price = float(self.amount * plan.scores * PICKED_PART) / PICKS
            scale = self.rate.scale(1.0 if self.rate.concentrated else 2.0, price)
            noise_of_picks = -np.log((1 - unit) / 2) * scale
            ranks = np.argsort(penalty - noiseless - noise_of_picks, kind="stable")
            pairs, share = ranks[:PICKS], share * (1 - PICKED_PART)
        square = self.score_noise(len(pairs), share).variance
        noise = NormalNoise(sqrt(square + unsure))
        noisy = noiseless[pairs] + unit[pairs] * sqrt(3) * noise.deviation
        unpicked = max(1, len(true) - len(pairs))
        likely = np.full(len(true), (true.sum() - true[pairs].sum()) / unpicked)
        likely[pairs] = NoisyScores(noisy, floor[pairs], noise).expected([mean])[0][0]
        return likely

    def foreseen_dependence(self, mean: float) -> FloatArray:
        """Return a simulated dependence of every pair (pairs,), in rows, with this mean and always
        from the same seed."""
        return mean * self._foreseen[0]

    def table_noise(self, cells: FloatArray, amount: float) -> FloatArray:
        """Return the expected L1 noise, in rows, of tables with so many cells if d − 1 of them, d
        the number of attributes, share ``amount`` of the budget."""
        return cells * self.rate.mean_noise(amount / max(1, len(self.sizes) - 1))

    @cached_property
    def _foreseen(self) -> tuple[FloatArray, FloatArray]:
        """A dependence, of mean 1 over all pairs, and noise in −1..1 for every pair, simulated from
        a fixed seed."""
        rng, many = np.random.default_rng(0), len(self.sizes) * (len(self.sizes) - 1) // 2
        middle = (np.arange(many) + 0.5) / many
        return rng.permutation(-np.log(1 - middle)), 2 * rng.permutation(middle) - 1

    def score_noise(self, many: int, share: Fraction) -> ScoreNoise:
        """Return the noise of one among ``many`` scores that are measured together for a share of
        the budget.

        It is that of the L∞ mechanism in pure ε, as one row moves each by 1; else Gaussian,
        √many in L2."""
        if self.rate.concentrated:
            return NormalNoise(self.rate.scale(sqrt(many), float(self.amount * share)))
        return CubeNoise(many, self.rate.scale(1.0, float(self.amount * share)))

    @property
    def measures_all_pairs(self) -> bool:
        """Whether the best plan is a covering design at every possible mean dependence."""
        plan = self.choose()
        return not self.mean_share and plan.is_covering

    @property
    def noise_of_two_plans(self) -> tuple[float, float]:
        """The errors, in rows, that noise alone causes in packed tables and in a covering of all
        pairs.

        Where all pairs cannot be covered, a chain of pairs of few groups stands for them."""
        packed = self.independent.least_error(self.packed, self.late_amount, singles=False)
        if self.is_coverable:
            return packed, self.error_of_covering(self.covering)
        grouped = {name: min(FEW_GROUPS, size) for name, size in self.sizes.items()}
        model = replace(self.independent, grouped=grouped)
        return packed, model.least_error(list(pairwise(self.sizes)), self.late_amount)

    @cached_property
    def packed(self) -> tuple[Names, ...]:
        """The tables that contain every attribute once, with the least noise in one-way
        marginals."""

        def pack(sizes: Mapping[str, int]) -> tuple[Names, ...]:
            most = min(MAX_TABLE_CELLS, self.cap)
            return pack_tables(sizes, rate=self.rate, most_cells=most, weights=self.weights)

        packed = pack(self.sizes)
        return packed if all(map(self.fits, packed)) else pack(self.table_sizes)

    @property
    def is_coverable(self) -> bool:
        """Whether rows can be drawn from tables that cover every pair."""
        has_all_pairs = len(self.pairs) == comb(len(self.sizes), 2)
        return has_all_pairs and (self.is_small or max(self.sizes.values()) == 2)

    @property
    def is_small(self) -> bool:
        """Whether all attributes fit into one clique."""
        return cell_count(tuple(self.sizes), self.sizes) <= self.cap

    @cached_property
    def covering(self) -> tuple[Names, ...]:
        """The covering design with the least error; only where ``pairs`` is not empty and
        ``is_coverable`` is true."""
        most = min(MAX_TABLE_CELLS, self.cap)
        designs = {
            covering_design(sizes, most_cells=1 << bits, most_attributes=len(sizes))
            for sizes in (self.sizes, self.table_sizes)
            for bits in range(2, most.bit_length())
        }
        fitting = [views for views in sorted(designs) if all(map(self.fits, views))]
        return min(fitting, key=self.error_of_covering)

    def error_of_covering(self, views: Sequence[Names]) -> float:
        """Return the error of all pairs, in rows, that measuring the views of a covering design
        would leave."""
        model, d = self.independent, len(self.sizes)
        levels, first, second = model.levels, model.first, model.second
        # Precisions of one-way marginals and of pairs, in 1/rows².
        of_pairs, of_singles = np.zeros((d, d)), np.zeros(d)
        amounts = self.covering_amounts(views, self.late_amount)
        for view, amount in zip(views, amounts, strict=True):
            cells = cell_count(view, self.sizes)
            precision = 1 / (self.rate.mean_noise(amount) ** 2 * cells)
            inside = sorted(model.place[name] for name in view)
            of_singles[inside] += precision / levels[inside]
            of_pairs[np.ix_(inside, inside)] += precision
        free = (levels[first] - 1) * (levels[second] - 1)
        squares = 1 / of_singles[first] + 1 / of_singles[second] + free / of_pairs[first, second]
        return float((model.pair_weights * np.sqrt(squares)).sum())

    def covering_amounts(self, views: Sequence[Names], amount: float) -> list[float]:
        """Return the parts of ``amount`` for each view that leave the least noise in all pairs."""
        place = self.independent.place

        def share(view: Names) -> float:
            cells = cell_count(view, self.sizes)
            noise = sum(
                (1.0 if self.weights is None else float(self.weights[place[a], place[b]]))
                * sqrt(cells * (self.sizes[a] - 1) * (self.sizes[b] - 1))
                for a, b in combinations(view, 2)
            )
            return self.rate.relative_share(noise or float(cells))

        shares = [share(view) for view in views]
        return [amount * part / sum(shares) for part in shares]

    def least_share(self, late: float) -> float:
        """Return the share of rows that a group of levels needs to stand out from the noise.

        A cell of two independent groups with this share has as many rows as noise, if d − 1 tables
        share a budget of ``late`` alike."""
        return sqrt(float(self.table_noise(np.ones(1), late)[0]) / self.rows)

"""How one_shot divides its amount: what is measured, and what finding that out may cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import log, prod, sqrt

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, Independence
from dp_pipeline.gate.selection import ForestPlan
from dp_pipeline.inference.table_sets import INDIRECT, MOST_TABLE_CELLS, one_way_noise, pair_noise
from dp_pipeline.inference.views import covering_design
from dp_pipeline.release.measurement import NoiseRate
from dp_pipeline.spec.encoding import Names

Pair = tuple[str, str]

LATE = Fraction(95, 100)
"""What buying the number of rows and choosing a plan leave of the amount, about."""

HELP, HELP_IN_RHO = Fraction(5, 2), Fraction(4)
HELP_OF_FEW = Fraction(1, 2)
"""How many pairs are better by one that is planned with, about, in a large plan (with Gaussian
noise more tables than a forest are measured) and in a small one."""

MOST_GAP_NOISE = 0.2
"""Gaps are measured, not picked, while their noise is at most this share of the rows."""

MEAN = Fraction(4, 100)
MOST_OF_GAP = 0.4
"""What the mean of U costs, and what part of a mean gap the noise of a pair in views may be."""
DOUBT = 2.5
"""Scales of its noise by which the mean is taken for more than it is."""

PICKED = Fraction(5, 100)
MOST_PICK_NOISE = 0.05
"""What picking pairs costs, and how far a pick among all may be off, as a share of the rows."""

LEAST_EARLY, MOST_EARLY = Fraction(8, 100), Fraction(30, 100)
LEAST_STRUCTURE, MOST_STRUCTURE = Fraction(3, 100), Fraction(12, 100)

MOST_VIEW_NOISE = 0.35
ALL_PAIRS = 0.04
"""Noise of an average pair, as a share of the rows: up to the first all pairs may be measured,
up to the second they are, and nothing has to be chosen."""

SCORE_NOISE = 0.05
LEAST_CHOICE, MOST_CHOICE = Fraction(1, 100), Fraction(10, 100)
"""A choice of plans has noise of that share of the rows, if that costs no more than these."""

PICK_NOISE = 0.1
"""Noise of a pair that is picked without one-way marginals, as a share of the rows, at most."""

LARGEST = 1e12
"""Rows: beyond any number of them all is noise, and a huge float is no whole number."""


@dataclass(frozen=True)
class Plan:
    """Shares of the amount.

    early       for one-way marginals that say what independent pairs would look like; 0 where
                pairs are found without
    edges       pairs to plan with
    structure   for finding the tables
    views       tables that hold every pair, where nothing has to be found
    """

    early: Fraction
    edges: int
    structure: Fraction
    views: tuple[Names, ...] = ()

    @property
    def late(self) -> Fraction:
        """For the tables, at least."""
        return LATE - self.early - self.structure


@dataclass(frozen=True)
class Planning:
    """What plans are judged by; all of it is public or released.

    sizes    levels of every attribute, each at least 2
    rows     noisy number of rows, at least 1
    amount   of the whole release
    cap      most cells of a clique
    """

    sizes: Mapping[str, int]
    rows: float
    amount: Fraction
    rate: NoiseRate
    cap: int

    @cached_property
    def pairs(self) -> list[Pair]:
        """All pairs of attributes that fit a clique."""
        return [pair for pair in combinations(self.sizes, 2) if self._cells(pair) <= self.cap]

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """What is compared in ρ: a few pairs found without one-way marginals; a forest of pairs and
        more, found with them; all pairs, where one clique holds all attributes, or all are binary.
        """
        if not self.pairs:
            return ()
        few, most = self._few, len(self.sizes) - 1
        if not self.is_coverable:
            return *few, Plan(self._early, most, self._structure)
        views = self.views
        if self._view_noise(views) > MOST_VIEW_NOISE * self.rows * len(self.pairs):
            return few
        return *few, Plan(Fraction(0), len(self.pairs), Fraction(0), views)

    @property
    def _large(self) -> tuple[Plan, ...]:
        """In pure ε: gaps of all pairs where their noise allows, else of a few that are picked, and
        no plan where not one can be told from noise.
        """
        most = len(self.sizes) - 1
        if self.gap_noise(self._structure) <= MOST_GAP_NOISE * self.rows:
            return (Plan(self._early, most, self._structure),)
        told = MOST_PICK_NOISE * self.rows * float(self.amount * PICKED) * 0.75
        edges = min(most, int(told / (self.rate.distance * max(1.0, log(len(self.pairs))))))
        return (Plan(MOST_EARLY, edges, PICKED),) if edges else ()

    def gap_noise(self, structure: Fraction) -> float:
        """Standard deviation of a gap, where all of them are measured together for that share."""
        p, scale = len(self.pairs), self.rate.distance / float(self.amount * structure)
        return sqrt((p + 1) * (p + 2) / 3) * scale

    @property
    def _early(self) -> Fraction:
        """For one-way marginals: in pure ε they are refined later, by what is left."""
        if self.rate.concentrated:
            return Fraction(30, 100)
        noise = self.rate.distance * sum(map(sqrt, self.sizes.values())) ** 2
        return self._clipped(noise / (0.05 * len(self.sizes)), LEAST_EARLY, MOST_EARLY)

    @property
    def _structure(self) -> Fraction:
        """For gaps: in pure ε as much as the noise of the L∞ mechanism asks for."""
        if self.rate.concentrated:
            return MOST_STRUCTURE
        noise = self.rate.distance * len(self.pairs) / sqrt(3)
        return self._clipped(noise / 0.06, LEAST_STRUCTURE, MOST_STRUCTURE)

    def _clipped(self, wanted: float, least: Fraction, most: Fraction) -> Fraction:
        """A share that makes the noise of ``wanted`` at ε = 1 as many rows as there are."""
        thousandths = Fraction(
            round(1000 * min(1.0, wanted / (float(self.amount) * self.rows))), 1000
        )
        return min(most, max(least, thousandths))

    @property
    def _few(self) -> tuple[Plan, ...]:
        """A third of d − 1 pairs, but no more than can be told from noise."""
        share = Fraction(8, 100)
        told = self.rate.for_choice(2 * self.rate.distance / (PICK_NOISE * self.rows))
        most = int(min(float(self.amount * share) / told, len(self.sizes)))
        edges = min(most, max(1, (len(self.sizes) - 1) * 35 // 100))
        return (Plan(Fraction(0), edges, share),) if edges else ()

    @property
    def is_coverable(self) -> bool:
        """Whether rows can be drawn from tables that hold every pair."""
        return self.is_small or max(self.sizes.values()) == 2

    @property
    def is_small(self) -> bool:
        """Whether one clique may hold all attributes."""
        return self._cells(self.sizes) <= self.cap

    @cached_property
    def views(self) -> tuple[Names, ...]:
        """The covering design with the least noise in the pairs."""
        most = min(MOST_TABLE_CELLS, self.cap)
        designs = [
            covering_design(self.sizes, most_cells=1 << bits, most_attributes=len(self.sizes))
            for bits in range(2, most.bit_length())
        ]
        return min(designs, key=self._view_noise)

    def view_weight(self, view: Names) -> float:
        """What the noise of a view counts."""
        return pair_noise(tuple(self.sizes[name] for name in view))

    def _view_noise(self, views: tuple[Names, ...]) -> float:
        """Total noise of all pairs; a pair in several views is known better."""
        shares = {view: self.rate.share(self.view_weight(view)) for view in views}
        total, amount = sum(shares.values()), float(self.amount * LATE)
        precisions = dict.fromkeys(combinations(self.sizes, 2), 0.0)
        for view, share in shares.items():
            noise = self.rate.deviation(amount * share / total) ** 2 * self._cells(view)
            for pair in combinations(view, 2):
                precisions[pair] += 1 / noise
        return sum(sqrt(self._cells(pair) / precision) for pair, precision in precisions.items())

    def least_share(self, plan: Plan) -> float:
        """Share of rows that a group of levels needs: its square in a pair then has as many rows
        as a cell has noise.
        """
        return sqrt(self._deviation(plan) / self.rows)

    def _deviation(self, plan: Plan) -> float:
        """Mean |noise| of one cell of a measured pair."""
        return self.rate.deviation(float(self.amount * plan.late) / plan.edges)

    def choose(self, curator: Curator) -> Plan | None:
        """The plan with a nearly best score; None where no dependence could pay for its noise.

        A plan's score is what its tables would gain over independence in the pairs, less half
        of what its smaller share loses in the one-way marginals. Nothing is asked where one plan
        is left, and where the noise in all pairs together is so small that it need not.
        """
        if not self.rate.concentrated:
            return self._chosen(curator)
        worth = [plan for plan in self.plans if self._could_pay(plan)]
        certain = ALL_PAIRS * self.rows * len(self.pairs)
        for plan in worth:
            if plan.views and self._view_noise(plan.views) <= certain:
                return plan
        if len(worth) < 2:
            return worth[0] if worth else None
        session = curator.open_scores({pair: Independence() for pair in self.pairs})
        plans = [self._scored(plan) for plan in worth]
        price = self.amount * self._share(plans)
        return worth[session.choose_plan("how to divide the amount", plans, amount=price)]

    def _chosen(self, curator: Curator) -> Plan | None:
        """In pure ε. Nothing is asked but where all pairs can be covered: then the mean of U, half
        of a gap, over all pairs, which says whether they depend on each other by more than noise.
        """
        large = self._large[0] if self.pairs and self._large else None
        if not self.pairs or not self.is_coverable:
            return large
        views = Plan(Fraction(0), len(self.pairs), Fraction(0), self.views)
        noise = self._view_noise(self.views) / len(self.pairs)
        if noise <= ALL_PAIRS * self.rows:
            return views
        if noise > MOST_VIEW_NOISE * self.rows:
            return large
        session = curator.open_scores({pair: Independence() for pair in self.pairs})
        price = self.amount * MEAN
        mean = session.measure_total(amount=price) / UNIT / len(self.pairs)
        # In doubt views: where pairs do depend on each other, tables of few tell much less.
        most = mean + DOUBT * 2 * self.rate.distance / float(price)
        # Of a pair's four cells three are told by its margins and the number of rows.
        return views if noise / 2 <= MOST_OF_GAP * 2 * most else large

    def _share(self, plans: Sequence[ForestPlan]) -> Fraction:
        """What the choice costs."""
        of_pair = Independence().linf(self.rate.distance)
        distance = max(plan.linf(of_pair) for plan in plans) / UNIT
        wanted = self.rate.for_choice(distance / (SCORE_NOISE * self.rows)) / float(self.amount)
        thousandths = Fraction(round(1000 * min(1.0, wanted)), 1000)
        return min(MOST_CHOICE, max(LEAST_CHOICE, thousandths))

    def _scored(self, plan: Plan) -> ForestPlan:
        """U is half of T, so weights are doubled and penalties halved."""
        if plan.views:
            weight = Fraction(len(self.sizes), 2 * len(self.pairs))
            noise = len(self.sizes) / 4 * self._view_noise(plan.views) / len(self.pairs)
            offset = int(UNIT * min(LARGEST, noise - self._one_way_noise(LATE) / 2))
            return ForestPlan(plan.edges, {}, weight, offset, cycles=True)
        penalties: dict[Names, int] = {pair: self.penalty(plan, pair) // 2 for pair in self.pairs}
        weight = 2 * (self._help if plan.early else HELP_OF_FEW) / (len(self.sizes) - 1)
        lost = self._one_way_noise(plan.early or plan.late) - self._one_way_noise(LATE)
        return ForestPlan(plan.edges, penalties, weight, int(UNIT * min(LARGEST, lost / 2)))

    @property
    def _help(self) -> Fraction:
        return HELP_IN_RHO if self.rate.concentrated else HELP

    def _one_way_noise(self, share: Fraction) -> float:
        """Mean |noise| in all one-way marginals together."""
        weights = [float(size) for size in self.sizes.values()]
        return self.rate.least(weights, float(self.amount * share))

    def penalty(self, plan: Plan, pair: Pair) -> int:
        """The noise of a pair, in the units of a score."""
        return int(UNIT * min(LARGEST, self._noise(plan, pair)))

    def _noise(self, plan: Plan, pair: Pair) -> float:
        """Of a pair of grouped attributes; in a small plan, that all one-way marginals have more
        when one table is made of two.
        """
        if not plan.early:
            return (len(self.sizes) - 1) / INDIRECT * self._joining(plan, pair)
        most = max(2.0, 1 / self.least_share(plan))
        left, right = (min(float(self.sizes[name]), most) for name in pair)
        return left * right * self._deviation(plan)

    def _joining(self, plan: Plan, pair: Pair) -> float:
        total = sum(self.rate.share(float(size)) for size in self.sizes.values())
        joined = self.rate.share(one_way_noise(pair, self.sizes))
        after = total + joined - sum(self.rate.share(float(self.sizes[name])) for name in pair)
        amount = float(self.amount * plan.late)
        return max(0.0, self.rate.of_shares(after, amount) - self.rate.of_shares(total, amount))

    def _could_pay(self, plan: Plan) -> bool:
        """Whether a likely dependence would be more than its noise: T is half the rows in every
        pair of a large plan; complete, T = 2n(1 − 1/m), in one pair of a small one.
        """
        if plan.views:
            return True
        if plan.early:
            cheapest = sorted(self._noise(plan, pair) for pair in self.pairs)[: plan.edges]
            gains = [max(0.0, self.rows / 2 - noise) for noise in cheapest]
            gain = float(self._help) * sum(gains) / plan.edges
            return gain > (self._one_way_noise(plan.early) - self._one_way_noise(LATE)) / 2
        most = {pair: 1 - 1 / min(self.sizes[name] for name in pair) for pair in self.pairs}
        return any(2 * self.rows * most[pair] > self._noise(plan, pair) for pair in self.pairs)

    def _cells(self, names: Iterable[str]) -> int:
        return prod(self.sizes[name] for name in names)

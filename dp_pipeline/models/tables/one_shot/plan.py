"""How one_shot divides its amount: what is measured, and what finding that out may cost.

Workload: which pairs of attributes count for more, as a data set file says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import log, pi, prod, sqrt
from typing import Any

import numpy as np

from dp_pipeline.config.encoding import FloatArray, Names
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.scores import UNIT, Independence
from dp_pipeline.inference.table_sets import (
    MOST_TABLE_CELLS,
    one_way_noise,
    packed,
    pair_noise,
)
from dp_pipeline.inference.views import covering_design
from dp_pipeline.results.measurement import NoiseRate

MOST = 1000
"""Of a weight; the least is a thousandth."""


@dataclass(frozen=True)
class Workload:
    """Entries of attribute names and a weight, in their order.

    >>> str(Workload.of("income 4,  age sex  0.5"))
    'income 4, age sex 0.5'
    """

    entries: tuple[tuple[Names, Fraction], ...] = ()

    @classmethod
    def of(cls, text: str) -> Workload | None:
        """From entries between commas, each of one to three names and a weight; None for another
        text.
        """
        entries = []
        for entry in filter(None, map(str.strip, text.split(","))):
            *names, weight = entry.split()
            is_weight = re.fullmatch(r"\d{1,4}(\.\d{1,3})?", weight)
            if not is_weight or not 1 <= len(set(names)) == len(names) <= 3:
                return None
            if not 0 < Fraction(weight) <= MOST:
                return None
            entries.append((tuple(names), Fraction(weight)))
        return cls(tuple(entries))

    def __str__(self) -> str:
        return ", ".join(f"{' '.join(names)} {float(weight):g}" for names, weight in self.entries)

    def require_known(self, names: Iterable[str], *, of: str) -> None:
        """DeclarationError for a name that is none of the attributes that are modelled."""
        known = set(names)
        for entry, _ in self.entries:
            for name in entry:
                if name not in known:
                    raise DeclarationError(
                        f"{of}: workload: expected names of modelled attributes, got {name[:60]!r}"
                    )

    def weights(self, names: Iterable[str]) -> FloatArray | None:
        """(d, d), symmetric: what each pair's error counts; None where all count alike.

        An entry of one name is of every pair with it, one of two or three of their pairs; of
        several entries a pair has the product.

        >>> Workload.of("a 2, b c 3").weights("abc").tolist()
        [[1.0, 2.0, 2.0], [2.0, 1.0, 3.0], [2.0, 3.0, 1.0]]
        """
        if not self.entries:
            return None
        place = {name: at for at, name in enumerate(names)}
        found = np.ones((len(place), len(place)))
        for entry, weight in self.entries:
            inside = [place[name] for name in entry if name in place]
            if len(entry) == 1 and inside:
                others = [at for at in place.values() if at != inside[0]]
                found[inside[0], others] *= float(weight)
                found[others, inside[0]] *= float(weight)
            for one, other in combinations(inside, 2):
                found[one, other] *= float(weight)
                found[other, one] *= float(weight)
        return found


def workload() -> Any:
    """Of a model: which pairs count for more; nothing where all count alike."""
    expected = "entries of one to three attributes and a weight, such as income 4, age sex 2"

    def parse(text: str) -> str | None:
        found = Workload.of(text)
        return None if found is None else str(found)

    metadata = {"parse": parse, "expected": expected, "measuring": True}
    return field(default="", metadata=metadata)


Pair = tuple[str, str]

LATE = Fraction(95, 100)
"""What buying the number of rows and finding tables leave of the amount, about."""

MOST_GAP_NOISE = 0.2
"""The gaps of all pairs are measured while their noise is at most this share of the rows."""

OF_PICKS = Fraction(4, 5)
FEWEST_PICKS = 2
"""Else pairs are picked by their gaps: this part of the price for the picks, and the rest for the
gaps of those that were picked; at least so many."""

LITTLE_NOISE = 0.12
MANY_PICKED = (Fraction(16, 100), 0.4)
LEAST_MEAN_GAP, MOST_MEAN_GAP = Fraction(5, 1000), Fraction(6, 100)
MEAN_GAP_NOISE = 0.01
MOST_EARLY_PICKED = Fraction(20, 100)
MANY_ATTRIBUTES = 30
"""Where the noise of a one-way marginal, which gaps need, is at most that share of the rows: what
picking costs, and how far a pick may be off, as a share of the rows; the less, the fewer picks.
The mean of all gaps is measured before, for so much, and one-way marginals cost at most that. Of
more attributes than that the mean has to be the larger for pairs to be picked: they would be few
beside all."""

MOST_GROWN = 50
SURE_NOISE = 0.07
SURELY_PICKED = (Fraction(16, 100), 0.6)
"""Putting tables together takes time with the square of the pairs. Of more attributes than that
pairs are picked without the mean, for so much, where one-way marginals have less noise still."""

MUCH_NOISE = 0.35
FEW_PICKED = (Fraction(5, 100), 0.3)
PACKED_ALIKE = 0.95
"""Of at most ``MANY_ATTRIBUTES``, the same price and noise of picks where one-way marginals have at
most this share of noise, and tables of several attributes would save less than a twentieth of it:
one-way marginals are measured by themselves where pairs are picked."""

LEAST_EARLY, MOST_EARLY = Fraction(8, 100), Fraction(30, 100)
EARLY_NOISE = 0.05
"""Bounds of what one-way marginals cost first, and the noise of one, as a share of the rows, that
is looked for between them."""

LEAST_STRUCTURE, MOST_STRUCTURE = Fraction(3, 100), Fraction(12, 100)
GAP_NOISE = 0.06
"""The same of the gaps of all pairs together."""

LEAST_MEAN, MOST_MEAN = Fraction(2, 100), Fraction(10, 100)
MEAN_NOISE, MEAN_NOISE_IN_SEVERAL = 0.012, 0.03
"""The same of the mean of U over all pairs; the second where no clique holds all attributes, and
tables that are put together are nearly as good as views."""

OF_MEAN, OF_MEAN_BESIDE_GAPS = 0.8, 0.6
"""Views are measured where an average pair's noise, half of it, is at most this part of the mean of
U; the second where the gaps of all pairs can be measured instead, which loses less."""

FEW_GROUPS = 4
"""Groups of an attribute's levels in a measured table, about, where noise is much."""

MOST_PACKED = 256
"""Cells of a table that attributes are packed into."""

MOST_VIEW_NOISE = 0.35
ALL_PAIRS, ALL_PAIRS_IN_SEVERAL = 0.02, 0.04
"""Noise of an average pair, as a share of the rows: up to the first all pairs may be measured,
up to the second they are, and nothing has to be chosen; the third where no clique holds all."""


@dataclass(frozen=True)
class Plan:
    """Shares of the amount.

    early       for one-way marginals that say what independent pairs would look like
    structure   for finding the tables
    picks       pairs that are picked, where not all gaps are measured
    mean_gap    for the mean of all gaps, where tables are put together by what little is known
    views       tables that hold every pair, where nothing has to be found
    """

    early: Fraction = Fraction(0)
    structure: Fraction = Fraction(0)
    picks: int = 0
    mean_gap: Fraction = Fraction(0)
    views: tuple[Names, ...] = ()


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

    def choose(self, curator: Curator) -> Plan | None:
        """All pairs where they can be covered and that pays, else gaps of all of them where their
        noise allows, else those of pairs that are picked; None where not one can be told from
        noise.

        Nothing is asked but where all pairs can be covered: then the mean of U, half of a gap,
        over all pairs, which says whether they depend on each other by more than noise.
        """
        if not self.pairs:
            return None
        if not self.is_coverable:
            return self._found
        if self.knows_all_pairs:
            return Plan(views=self.views)
        noise = self._view_noise(self.views) / len(self.pairs)
        if noise > MOST_VIEW_NOISE * self.rows:
            return self._found
        part = OF_MEAN_BESIDE_GAPS if self._knows_gaps else OF_MEAN
        pays = noise / 2 <= part * self._noisy_mean(curator)
        return Plan(views=self.views) if pays else self._found

    @property
    def knows_all_pairs(self) -> bool:
        """Whether all pairs can be covered with little noise, whatever they depend on."""
        if not self.pairs or not self.is_coverable:
            return False
        most = ALL_PAIRS if self.is_small else ALL_PAIRS_IN_SEVERAL
        return self._view_noise(self.views) / len(self.pairs) <= most * self.rows

    def _noisy_mean(self, curator: Curator) -> float:
        """The mean of U over all pairs, in rows. Of a pair's four cells three are told by its
        margins and the number of rows, so its noise counts half.
        """
        noise = MEAN_NOISE if self.is_small else MEAN_NOISE_IN_SEVERAL
        wanted = self.rate.for_scale(2.0, noise * self.rows)
        price = self.amount * self._share(wanted, LEAST_MEAN, MOST_MEAN)
        session = curator.open_scores({pair: Independence() for pair in self.pairs})
        return session.measure_total(amount=price) / UNIT / len(self.pairs)

    @property
    def _knows_gaps(self) -> bool:
        """Whether the gaps of all pairs can be measured."""
        return self.gap_noise(self._structure) <= MOST_GAP_NOISE * self.rows

    @property
    def _found(self) -> Plan | None:
        """Tables have to be found."""
        if self._knows_gaps:
            return Plan(self.early, self._structure)
        noise = self.one_way_noise / self.rows
        if len(self.sizes) > MOST_GROWN:
            return self._picked(*SURELY_PICKED) if noise <= SURE_NOISE else None
        if noise <= LITTLE_NOISE and (plan := self._picked(*MANY_PICKED)):
            wanted = self.rate.for_scale(1.0, MEAN_GAP_NOISE * self.rows)
            mean_gap = self._share(wanted, LEAST_MEAN_GAP, MOST_MEAN_GAP)
            early = min(plan.early, MOST_EARLY_PICKED)
            return replace(plan, early=early, mean_gap=mean_gap)
        is_few = noise <= MUCH_NOISE and len(self.sizes) <= MANY_ATTRIBUTES
        return self._picked(*FEW_PICKED) if is_few and not self._packs else None

    def _picked(self, share: Fraction, noise: float) -> Plan | None:
        """As many picks as that share of the amount pays for, each off by that share of the rows;
        None for too few.
        """
        off = self.rate.distance * max(1.0, log(len(self.pairs))) / (noise * self.rows)
        most = int(float(self.amount * share * OF_PICKS) / self.rate.for_choice(off))
        picks = min(len(self.sizes) - 1, most)
        return Plan(self.early, share, picks) if picks >= FEWEST_PICKS else None

    @property
    def packed(self) -> tuple[Names, ...]:
        """Tables that hold every attribute once, with the least noise in one-way marginals."""
        return packed(self.sizes, rate=self.rate, most_cells=min(MOST_PACKED, self.cap))

    @property
    def _packs(self) -> bool:
        """Whether they have much less of it than one table an attribute."""
        shares = [self.rate.share(one_way_noise(table, self.sizes)) for table in self.packed]
        together, apart = (self.rate.of_shares(one, 1.0) for one in (sum(shares), self._apart))
        return together < PACKED_ALIKE * apart

    @property
    def total_noise(self) -> tuple[float, float]:
        """Return the mean |noise| of all cells, in rows, of two plans: every attribute once, and
        all pairs. Where views cannot cover these, one-way marginals and a chain of pairs of few
        groups stand for them. The number of rows has no part in it.
        """
        amount = float(self.amount)
        once = [one_way_noise(table, self.sizes) for table in self.packed]
        if self.is_coverable:
            return self.rate.least(once, amount), self._view_noise(self.views)
        sizes = list(self.sizes.values())
        chain = [min(FEW_GROUPS, a) * min(FEW_GROUPS, b) for a, b in pairwise(sizes)]
        return self.rate.least(once, amount), self.rate.least([*sizes, *chain], amount)

    @property
    def one_way_noise(self) -> float:
        """In rows in L1, of a marginal on average, for as much as may be spent on them early."""
        amount = float(self.amount * MOST_EARLY)
        return self.rate.of_shares(self._apart, amount) / len(self.sizes)

    @property
    def _apart(self) -> float:
        """Shares of all attributes, a table each."""
        return sum(self.rate.share(float(size)) for size in self.sizes.values())

    @property
    def least_mean_gap(self) -> float:
        """In rows: with a smaller mean of all gaps pairs are not picked. It is what the noise of
        one-way marginals puts into a pair, where all that finding tables leaves goes to them; more
        of it where attributes are many.
        """
        d, amount = len(self.sizes), float(self.amount * LATE)
        noise = sqrt(2) * self.rate.of_shares(self._apart, amount) / d
        return noise * max(1.0, d / MANY_ATTRIBUTES)

    def gap_noise(self, structure: Fraction) -> float:
        """Standard deviation of a gap, where all of them are measured together for that share: by
        the L∞ mechanism in pure ε, else by Gaussian noise, as one row moves every gap by 1.
        """
        p, amount = len(self.pairs), float(self.amount * structure)
        moves = sqrt(p) if self.rate.concentrated else sqrt((p + 1) * (p + 2) / 3)
        return self.rate.scale(moves, amount)

    @property
    def early(self) -> Fraction:
        """For one-way marginals, which are measured better later, by what is left."""
        shares, noise = self._apart, EARLY_NOISE * self.rows * len(self.sizes)
        if self.rate.concentrated:
            wanted = shares**3 / pi * (self.rate.distance / noise) ** 2
        else:
            wanted = shares**2 * self.rate.distance / noise
        return self._share(wanted, LEAST_EARLY, MOST_EARLY)

    @property
    def _structure(self) -> Fraction:
        """For the gaps of all pairs."""
        p = len(self.pairs)
        moves = sqrt(p) if self.rate.concentrated else p / sqrt(3)
        wanted = self.rate.for_scale(moves, GAP_NOISE * self.rows)
        return self._share(wanted, LEAST_STRUCTURE, MOST_STRUCTURE)

    def _share(self, wanted: float, least: Fraction, most: Fraction) -> Fraction:
        """That amount as a share of the whole, in thousandths and within bounds."""
        thousandths = Fraction(round(1000 * min(1.0, wanted / float(self.amount))), 1000)
        return min(most, max(least, thousandths))

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

    def least_share(self, late: float) -> float:
        """Share of rows that a group of levels needs: its square in a pair then has as many rows
        as a cell has noise, if d − 1 tables share an amount ``late`` alike.
        """
        return sqrt(self.rate.deviation(late / (len(self.sizes) - 1)) / self.rows)

    def _cells(self, names: Iterable[str]) -> int:
        return prod(self.sizes[name] for name in names)

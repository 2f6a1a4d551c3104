"""Warnings about a release, such as few rows or weak signal, that follow from public numbers.

How often a warning is wrong, where N̂ is the noisy number of rows and σ the deviation of its noise:

* *Few rows*: N̂ + 4σ is below half of ``nominal_rows``. If at least half of them were counted, noise
  causes the warning with a probability of at most 0.2 %: that of one Laplace number below −4σ,
  which is ½e^(−4√2). A sum of several has lighter tails, and with a ``nominal_rows`` that is wrong
  by 20 % the noise would have to reach another 0.3 ``nominal_rows`` down.
* *No rows*: N̂ is below 4σ. If there are 8σ rows or more, noise causes it as rarely.
* *Weak signal*: (N̂ + 4σ)·ε/(k·L) is below 20, for k centres and L rows that neighbours differ by.
  If the true N has a signal of 20 or more, noise causes it as rarely.
* *Mostly noise*: in each measured table of several attributes the pair with the least noise has a
  mean error of half of N̂ + 4σ rows or more, in total variation. The error is known from sizes and
  scales, so the warning is wrong only where N̂ is, as above.
* *Missing cells*: a share of a column is above MUCH_MISSING by more than 4σ/N̂. Where fewer are
  missing, noise causes it as rarely.
* *Left out*: the same for the rows of a clustering that have no place.
* *At a bound*, *one level*, *no class*: a property of the release, in which noise moves a share by
  σ/N̂; a column that really has it is reported too. The last bin of a number in a table is no
  reason for a warning: most people have no capital gain.

σ comes from the charges: of m counts of scale s it is √(2m)·s, and of a tree's leaves at most 1.3
times that, s the scale of one count that spends a whole path. (A leaf of ``htree_kmeans`` adds at
most 3.2 s² to the variance of the total: the first generation has 0.2 of ε, and counts of parents
are averaged with their children's.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.domain import Attribute, Domain
from dp_pipeline.config.encoding import FloatArray
from dp_pipeline.reporting.text import noisy_text, number_text
from dp_pipeline.results.accountant import LAPLACE, TREE_PATHS, Spend
from dp_pipeline.results.bundle import Bundle
from dp_pipeline.results.clusters import LEFT_OUT, Tables
from dp_pipeline.results.measurement import NoisyCounts, is_of_pairs, is_over_groups, variance
from dp_pipeline.results.synthetic_table import (
    described_tables,
    flat_noisy_tables,
    noisy_table_names,
)

DOUBTFUL = "What speaks against it"
"""The heading above warnings."""

FEW = Fraction(1, 2)
"""Share of ``nominal_rows`` below which there is a warning of few rows."""

DEVIATIONS = 4
"""Standard deviations by which noise may explain a number without a warning."""

ENOUGH = 20
"""N·ε/(k·L) below which centres are mostly noise."""

NOISE_SHARE = 0.5
"""Mean error of a pair, as a share of the rows, from which on it is mostly noise."""

MEAN_OF_DEVIATION = 0.7
"""Mean |x| of Laplace noise, in standard deviations of it; of Gaussian noise it is more."""

NEARLY_ALL = 0.95
"""Share of the rows at a bound, or of the level that unknown texts become."""

MUCH_MISSING = 0.05
"""Share of missing cells of a column, or of rows without a place, above which a warning is due."""

EDGE = 1 / 32
"""Part of a declared interval that counts as its bound."""

_NO_CLASS = (
    "No class: none is published, because none has enough noisy rows. Fewer bits, a larger ε or a "
    "smaller K would help; or rows that break the declaration were dropped."
)

_TREE = 1.6
"""Variance of the total of a tree's leaves, divided by that of as many counts whose scale is that
of one count which spends a whole path."""


@dataclass(frozen=True)
class NoisyTotal:
    """The noisy number of rows of a release, and the standard deviation of its noise, in rows."""

    rows: float
    deviation: float

    @property
    def upper_bound(self) -> float:
        """The largest plausible number of rows: ``DEVIATIONS`` above the noisy one."""
        return self.rows + DEVIATIONS * self.deviation

    @property
    def is_noise(self) -> bool:
        """Whether the number is below ``DEVIATIONS`` deviations of its noise, as for no rows."""
        return self.rows < DEVIATIONS * self.deviation

    @property
    def is_signal(self) -> bool:
        """Whether the number is at least 2·``DEVIATIONS`` deviations of its noise."""
        return self.rows >= 2 * DEVIATIONS * self.deviation

    @property
    def text(self) -> str:
        return noisy_text(self.rows, self.deviation)

    @classmethod
    def of_counts(cls, counts: Iterable[NoisyCounts]) -> NoisyTotal | None:
        """Return the mean of the totals of noisy tables that each count every row once, weighted by
        1/variance, with its deviation; None if no variance is above 0."""
        totals = [(float(each.table.sum()), each.table.size * each.variance) for each in counts]
        sums = [(total, total_variance) for total, total_variance in totals if total_variance > 0]
        precision = sum(1 / total_variance for _, total_variance in sums)
        if not precision:
            return None
        mean = sum(total / total_variance for total, total_variance in sums) / precision
        return cls(mean, 1 / sqrt(precision))

    @classmethod
    def of_tables(
        cls, tables: Tables, spends: Sequence[Spend], *, distance: int
    ) -> NoisyTotal | None:
        """Return the noisy number of rows, or of units with parts, of a clustering or a synthetic
        table; None where no counts are stored.

        tables     stored tables of the release
        spends     charges of the model, without those of its evaluation
        distance   number of rows by which neighbouring tables differ
        """
        if {*noisy_table_names(tables)} <= {*tables}:
            # Not every unit has a pair of parts.
            stored = flat_noisy_tables(tables)
            return cls.of_counts(each for each in stored if not is_of_pairs(each.attributes))
        if "centres" not in tables:
            return None
        counts = _counts(tables)
        count_variance = _count_variance(spends, distance)
        if counts is None or count_variance is None:
            return None
        return cls(float(counts.sum()), sqrt(len(counts) * count_variance))


def noisy_total(spec: DatasetSpec, bundle: Bundle) -> NoisyTotal | None:
    """Return the noisy number of rows, or of units with parts; None where no counts are stored."""
    spends = bundle.spends[: bundle.model_spend_count]
    return NoisyTotal.of_tables(bundle.tables, spends, distance=spec.distance)


def bundle_warnings(spec: DatasetSpec, bundle: Bundle) -> tuple[str, ...]:
    """Return a warning of each weakness that a stored release shows; () if it is k-anonymous.

    spec   the declaration of its data set
    """
    if bundle.is_k_anonymous:
        return ()
    total, epsilon = noisy_total(spec, bundle), Fraction(bundle.facts["epsilon"])
    return release_warnings(spec, bundle.tables, total, epsilon=epsilon)


def release_warnings(
    spec: DatasetSpec, tables: Tables, total: NoisyTotal | None, *, epsilon: Fraction
) -> tuple[str, ...]:
    """Return a warning of each weakness that the tables of a release show, such as few rows.

    spec     the declaration, with the declared number of rows if there is one
    tables   the tables as they are stored; those of rows and of cells are not needed
    total    noisy number of rows; None where it is unknown
    """
    if "centres" in tables:
        return _clustering_warnings(spec, tables, total, epsilon)
    if "classes" in tables:
        return () if len(tables["classes"]["rows"]) else (_NO_CLASS,)
    domain, items, shares = spec.domain, spec.domain.item_word, _marginal_shares(tables)
    if total and (few := _few_rows(total, spec.nominal_rows, items) or _no_rows(total, items)):
        return few
    declared = [name for name in shares if name in domain.names]
    of_levels = (text for name in declared for text in _one_level(domain[name], shares[name]))
    noise = 0.0 if total is None else DEVIATIONS * total.deviation / max(1.0, total.rows)
    of_missing = (
        f"Missing cells: {share:.0%} of {name} are empty or not as declared: levels, bounds, "
        "format or signs of numbers may be wrong."
        for name, share in missing_shares(domain, tables).items()
        if share > MUCH_MISSING + noise
    )
    return (*_mostly_noise(total, tables, items), *of_levels, *of_missing)


def _clustering_warnings(
    spec: DatasetSpec, tables: Tables, total: NoisyTotal | None, epsilon: Fraction
) -> tuple[str, ...]:
    if total is None:
        return ()
    few = (*_few_rows(total, spec.nominal_rows), *_warn_of_omitted_rows(tables, total))
    k = len(next(iter(tables["centres"].values())))
    at_most = spec.protection.rows
    weak = _weak_signal(total, k, epsilon, distance=spec.distance, at_most=at_most)
    warnings = few or weak or _no_rows(total)
    axes = [spec.domain[name] for name in tables["centres"] if name in spec.domain.numeric]
    # Where few rows were counted, their positions mean nothing.
    return (*warnings, *(weak if few else ()), *(() if warnings else _at_a_bound(tables, axes)))


def missing_shares(domain: Domain, tables: Tables) -> dict[str, float]:
    """Return attribute → share, in 0..1, of released rows without a value of it, for attributes
    that may be missing; {} for a release without a synthetic table.

    tables   the stored tables of the release
    """
    return {
        name: float(share[domain[name].missing_code])
        for name, share in _marginal_shares(tables).items()
        if name in domain.names and domain[name].nullable and len(share) == domain[name].size
    }


def omitted_rows_line(tables: Tables) -> str:
    """Return the noisy number of rows that a clustering left out, as text; empty without one."""
    if LEFT_OUT not in tables:
        return ""
    rows, deviation = (float(column[0]) for column in tables[LEFT_OUT].values())
    return noisy_text(rows, deviation)


def _warn_of_omitted_rows(tables: Tables, total: NoisyTotal) -> tuple[str, ...]:
    if LEFT_OUT not in tables:
        return ()
    rows, deviation = (float(column[0]) for column in tables[LEFT_OUT].values())
    every = max(1.0, rows + total.rows)
    if rows - DEVIATIONS * (deviation + MUCH_MISSING * total.deviation) <= MUCH_MISSING * every:
        return ()
    return (
        f"Left out: {rows / every:.0%} of the rows have no place that can be read, or another cell "
        "that has to be there is not as declared: columns, bounds, format or signs of numbers may "
        "be wrong.",
    )


def _few_rows(total: NoisyTotal, nominal_rows: int | None, items: str = "rows") -> tuple[str, ...]:
    if nominal_rows is None or total.upper_bound >= FEW * nominal_rows:
        return ()
    return (
        f"Few {items}: their noisy number is {total.text}, less than half of the {nominal_rows:,} "
        "that nominal_rows declares. Rows that break the declaration may have been dropped, the "
        "source may be read wrongly, or nominal_rows is wrong.",
    )


def _no_rows(total: NoisyTotal, items: str = "rows") -> tuple[str, ...]:
    if not total.is_noise:
        return ()
    return (
        f"No {items} to be seen: their noisy number, {number_text(total.rows)}, is below "
        f"{number_text(DEVIATIONS * total.deviation)}, {DEVIATIONS} standard deviations of its "
        "noise, so this release may be one of an empty table. Rows that break the declaration may "
        "have been dropped.",
    )


def _mostly_noise(total: NoisyTotal | None, tables: Tables, items: str) -> tuple[str, ...]:
    if total is None or noisy_table_names(tables)[0] not in tables:
        return ()
    # The counts of the smallest pair, of two levels each, are sums over the others.
    noise = [
        deviation * (cells if len(names) == 2 else sqrt(4 * cells))
        for names, cells, deviation in described_tables(tables)
        if is_over_groups(names)
    ]
    # The mean error, in rows (total variation), of the measured pair with the least noise.
    pair_noise = MEAN_OF_DEVIATION * min(noise, default=0.0) / 2
    if not noise or pair_noise < NOISE_SHARE * total.upper_bound:
        return ()
    share = pair_noise / max(1.0, total.rows)
    return (
        f"Mostly noise: every measured pair of attributes is wrong by {share:.0%} of the {items} "
        "or more, by sizes, scales and a noisy count, so attributes hardly depend on each other as "
        "they do in the source. A larger ε, fewer attributes, coarser bins or a smaller at_most "
        "would help.",
    )


def _weak_signal(
    total: NoisyTotal, k: int, epsilon: Fraction, *, distance: int, at_most: int
) -> tuple[str, ...]:
    unit = float(epsilon) / (k * distance)
    if total.upper_bound * unit >= ENOUGH:
        return ()
    signal = number_text(max(0.0, total.rows) * unit)
    formula, where, remedies = "N·ε/k", "", "Fewer centres or a larger ε"
    if distance > 1:
        formula = f"N·ε/(k·{distance})"
        where = f", where neighbouring tables differ by {distance} rows"
    if at_most > 1:
        remedies = "Fewer centres, a larger ε or a smaller at_most"
    return (
        f"Weak signal: {formula} must be at least {ENOUGH}{where}, but it is {signal} by a noisy "
        f"count: {k} centres are mostly noise at this ε. {remedies} would help.",
    )


def _at_a_bound(tables: Tables, axes: Sequence[Attribute]) -> tuple[str, ...]:
    counts = _counts(tables)
    weights = np.zeros(0) if counts is None else counts.clip(min=0)
    if not weights.sum() > 0:
        return ()
    warnings = []
    for axis in axes:
        interval = axis.coordinate
        assert interval is not None
        width = EDGE * (interval.upper - interval.lower)
        if "sizes" in tables:
            low = high = tables["centres"][axis.name]
        else:
            low, high = (tables["synopsis"][f"{axis.name}_{end}"] for end in ("lower", "upper"))
        ends = {"lower": high <= interval.lower + width, "upper": low >= interval.upper - width}
        for end, inside in ends.items():
            share = float(weights[inside].sum() / weights.sum())
            if share >= NEARLY_ALL:
                beyond = "clipped to it" if axis.on_invalid == "clip" else "dropped with their rows"
                warnings.append(
                    f"At a bound: {share:.0%} of the noisy rows are at the {end} bound of "
                    f"{axis.name}; numbers beyond it are {beyond}: bounds or unit may be wrong."
                )
    return tuple(warnings)


def _one_level(attribute: Attribute, shares: FloatArray) -> tuple[str, ...]:
    if attribute.other is None or len(shares) != attribute.size:
        return ()
    share = float(shares[attribute.labels().index(attribute.other)])
    if share < NEARLY_ALL:
        return ()
    return (
        f"One level: {share:.0%} of the synthetic rows have {attribute.name} = "
        f"{attribute.other!r}, which unknown texts become: the declared levels may be wrong.",
    )


def _counts(tables: Tables) -> FloatArray | None:
    if "sizes" in tables:
        return np.asarray(tables["sizes"]["size"], dtype=np.float64)
    return np.asarray(tables["synopsis"]["weight"]) if "synopsis" in tables else None


def _count_variance(spends: Sequence[Spend], distance: int) -> float | None:
    """Return the noise variance of one released count of a clustering; None where no charge counted
    rows.

    distance   number of rows by which neighbouring tables differ

    Counts of a tree come from its charge along paths, those of other models from their last charge
    of counts: one row changes a count by one, and centres by more."""
    trees = [s.scale for s in spends if s.mechanism == TREE_PATHS]
    counts = [s.scale for s in spends if s.mechanism == LAPLACE and s.sensitivity == distance]
    if trees:
        return _TREE * variance(trees[-1])
    return variance(counts[-1]) if counts else None


def _marginal_shares(tables: Tables) -> dict[str, FloatArray]:
    marginals = tables.get("marginals")
    if marginals is None:
        return {}
    names, shares = marginals["attribute"], marginals["probability"]
    return {name: shares[names == name] for name in dict.fromkeys(names.tolist())}

"""Discovery of what a file leaves undeclared: levels (``gate.texts``), bins (``gate.quantiles``)
and bounds (``bucket_threshold``).

Every query goes the way of all questions (``QueryExecutor``). ε is divided by the declaration
alone: the same for every query; δ the same for every attribute whose levels are sought. All queries
are charged before the first is answered, and add up to ε and δ: each is private whatever the
answers of those before, which decide at most between which bounds a tree is. A discovery that was
paid for always ends in a domain: where noisy answers say too little of an attribute, it gets the
best that they say, and a sentence (``DiscoveredAttribute.weak``) tells what would have been needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from dp_pipeline.config.clock import Clock
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.discovered_domain import DiscoveredAttribute, DiscoveredDomain
from dp_pipeline.config.domain import OTHER, Attribute, Undeclared
from dp_pipeline.config.encoding import MAX_BOUND, Coordinate
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.gate.charge import QueryExecutor
from dp_pipeline.gate.counter import UndeclaredDomainCounter
from dp_pipeline.gate.mechanisms import NoisyQuery, laplace_query, laplace_scale
from dp_pipeline.gate.noise import NoiseSource, checked_scale
from dp_pipeline.gate.quantiles import QuantileCutter, column_tree
from dp_pipeline.gate.texts import TextRule, parse_texts, text_rule
from dp_pipeline.gate.trees import TreeSession
from dp_pipeline.results.accountant import LAPLACE, TREE_PATHS, Accountant, Spend, split
from dp_pipeline.results.measurement import SHARES
from dp_pipeline.results.transcript import Transcript
from dp_pipeline.results.trees import Prefixes


@dataclass(frozen=True)
class DiscoveryQuery:
    """A query for levels, bounds or bins of one attribute, planned from public values alone.

    rule    which texts a query for levels releases; None for bounds and bins
    """

    attribute: Attribute
    spend: Spend
    rule: TextRule | None = None

    @property
    def undeclared(self) -> Undeclared:
        return self.attribute.undeclared or Undeclared()

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of the buckets among which bounds are discovered, ascending."""
        clock = self.attribute.clock
        return bucket_edges(self.undeclared.unit) if clock is None else year_edges(clock)


def discovery_queries(spec: DatasetSpec) -> tuple[DiscoveryQuery, ...]:
    """Return the queries that discover a domain; their charges add up to the declared ε and δ.

    DeclarationError where nothing is to be discovered.
    """
    cost = spec.discover
    if cost is None or not spec.to_discover:
        raise DeclarationError(
            f"{spec.name} has nothing to discover: declare an attribute with levels, bounds or "
            "quantiles to discover, and the cost of that under `discover`"
        )
    requests = [
        (spec.domain[name], kind) for name in spec.to_discover for kind in _query_kinds(spec, name)
    ]
    epsilons = split(cost.epsilon, [1] * len(requests))
    of_texts = sum(kind == "levels" for _, kind in requests)
    delta = (cost.delta or Fraction(0)) / max(1, of_texts)
    return tuple(
        _query(spec, attribute, kind, epsilon, delta)
        for (attribute, kind), epsilon in zip(requests, epsilons, strict=True)
    )


def _query_kinds(spec: DatasetSpec, name: str) -> Iterator[str]:
    undeclared = spec.domain[name].undeclared or Undeclared()
    if undeclared.levels is not None:
        yield "levels"
    if undeclared.bounds:
        yield "bounds"
    if undeclared.quantiles is not None:
        yield "quantiles"


def _query(
    spec: DatasetSpec, attribute: Attribute, kind: str, epsilon: Fraction, delta: Fraction
) -> DiscoveryQuery:
    words = f"{kind} of {attribute.name}"
    if kind == "levels":
        rows = spec.protection.rows
        most = (attribute.undeclared or Undeclared()).levels or 1
        persons = spec.distance // rows
        rule = text_rule(words, rows=rows, persons=persons, epsilon=epsilon, delta=delta, most=most)
        return DiscoveryQuery(attribute, rule.spend, rule)
    scale = laplace_scale(l1=spec.distance, epsilon=epsilon)
    mechanism = LAPLACE if kind == "bounds" else TREE_PATHS
    # Noise that cannot be drawn is refused before the charge; a tree draws for one share at least.
    checked_scale(scale if kind == "bounds" else scale * SHARES)
    return DiscoveryQuery(attribute, Spend(words, mechanism, epsilon, spec.distance, scale))


def discover(
    spec: DatasetSpec,
    counter: UndeclaredDomainCounter | None,
    accountant: Accountant,
    transcript: Transcript,
    noise: NoiseSource,
) -> DiscoveredDomain:
    """Charge ε and δ, and return the levels, bounds and bins that the declaration leaves open.

    accountant   a budget of exactly ``spec.discover``'s ε and δ; all of it is charged before the
                 first query
    counter, transcript, noise   see ``QueryExecutor``

    DeclarationError where nothing is to be discovered.
    """
    queries = discovery_queries(spec)
    accountant.charge(*(query.spend for query in queries))
    discovery = _Discovery(spec, QueryExecutor(counter, accountant, transcript, noise))
    attributes: dict[str, DiscoveredAttribute] = dict.fromkeys(
        spec.to_discover, DiscoveredAttribute()
    )
    for query in queries:
        name = query.attribute.name
        attributes[name] = discovery.ask(query, attributes[name])
    return DiscoveredDomain(tuple(attributes.items()))


@dataclass(frozen=True)
class _Discovery:
    spec: DatasetSpec
    executor: QueryExecutor[UndeclaredDomainCounter]

    def ask(self, query: DiscoveryQuery, so_far: DiscoveredAttribute) -> DiscoveredAttribute:
        """Answer one query; return ``so_far`` with the levels, bounds or bins that it discovers.

        Where noise hides them, they are no level, guessed bounds or one bin, and ``weak`` says so.
        """
        if query.rule is not None:
            return self._with_levels(query, query.rule, so_far)
        if query.spend.mechanism == LAPLACE:
            return self._with_bounds(query, so_far)
        return self._with_bins(query, so_far)

    def _with_levels(
        self, query: DiscoveryQuery, rule: TextRule, so_far: DiscoveredAttribute
    ) -> DiscoveredAttribute:
        name = query.attribute.name
        noisy_query = NoisyQuery(query.spend, rule.select)
        parameters = (rule.weights, rule.threshold, rule.most, query.spend.delta)
        key = ("texts", name, parameters, query.attribute.aliases, query.attribute.missing)
        texts = parse_texts(
            self.executor.answer(noisy_query, key, lambda rows: rows.texts(name, rule.weights))
        )
        if {*texts} - {query.attribute.other}:
            return replace(so_far, levels=texts)
        weak = (
            f"levels of {name}: no text has the about {float(rule.persons):,.0f} persons that make "
            f"it a level, so every value is {query.attribute.other or OTHER!r}: raise `discover`, "
            "or list the levels"
        )
        return replace(so_far, levels=texts, weak=weak)

    def _with_bounds(
        self, query: DiscoveryQuery, so_far: DiscoveredAttribute
    ) -> DiscoveredAttribute:
        name, clock, unit = query.attribute.name, query.attribute.clock, query.undeclared.unit
        edges, threshold = query.edges, rows_for_bounds(self.spec, query)
        noisy_query = laplace_query(
            query.spend.what, l1=query.spend.sensitivity, epsilon=query.spend.epsilon
        )
        kind = repr(unit) if clock is None else f"years of {clock.kind} in {clock.zone}"
        noisy = self.executor.answer(
            noisy_query,
            ("magnitudes", name, kind, query.attribute.missing),
            lambda counter: counter.magnitudes(name, edges),
        )
        passed, weak = np.flatnonzero(noisy >= threshold), None
        if not passed.size:
            passed = np.array([noisy.argmax()])
            weak = (
                f"bounds of {name}: no {'power of two' if clock is None else 'year'} has a noisy "
                f"count of the needed {threshold:,} rows, so they are a guess: raise `discover`, "
                "or declare bounds"
            )
        first, last = edges[int(passed[0])], edges[int(passed[-1]) + 1]
        bounds = with_zero(first, last) if clock is None else (first, last - 1)
        return replace(so_far, bounds=bounds, weak=weak)

    def _with_bins(self, query: DiscoveryQuery, so_far: DiscoveredAttribute) -> DiscoveredAttribute:
        name, undeclared = query.attribute.name, query.undeclared
        interval = query.attribute.coordinate or Coordinate(*(so_far.bounds or (0.0, 0.0)))
        inner = self.executor.recoded(
            ("within", name, repr(interval.lower), repr(interval.upper)),
            lambda counter: counter.within(name, interval),
        )
        session = TreeSession(column_tree(name), query.spend, inner, Prefixes.root())
        cutter = QuantileCutter(
            interval, undeclared.quantiles or 1, undeclared.unit, scale=float(query.spend.scale)
        )
        noisy = cutter.cut(session)
        if noisy is not None:
            return replace(so_far, edges=noisy.cuts, pieces=noisy.pieces)
        weak = so_far.weak or (
            f"quantiles of {name}: the number of rows is less than its noise, so all numbers are "
            "one bin: raise `discover`, or declare a number of bins"
        )
        return replace(so_far, edges=(), weak=weak)


def rows_for_bounds(spec: DatasetSpec, query: DiscoveryQuery) -> int:
    assert spec.discover is not None
    return bucket_threshold(query.spend.scale, len(query.edges) - 1, spec.discover.beta)


def bucket_edges(unit: float) -> tuple[float, ...]:
    """Return the edges of buckets, ascending: 0, and ± unit · 2^i for i ≥ 0 up to 1e15.

    >>> [edge for edge in bucket_edges(1.0) if abs(edge) <= 4]
    [-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]
    """
    ends = [unit]
    while ends[-1] * 2 <= MAX_BOUND:
        ends.append(ends[-1] * 2)
    return (*(-end for end in reversed(ends)), 0.0, *ends)


def year_edges(clock: Clock) -> tuple[float, ...]:
    """Return the number by which a clock encodes the beginning of each year from 1900 to 2100,
    ascending.

    A date is in one year as a number is in one bucket, or in none, so ``bucket_threshold`` holds.

    >>> len(year_edges(Clock("date"))), 0.0 in year_edges(Clock("date"))  # 1970-01-01
    (201, True)
    """
    return tuple(float(clock.number_of(datetime(year, 1, 1))) for year in range(1900, 2101))


def with_zero(lower: float, upper: float) -> tuple[float, float]:
    """Return the ends of an interval, or 0 in place of the end nearer to 0 where that widens it by
    at most a third.

    >>> with_zero(256.0, 1024.0), with_zero(512.0, 1024.0), with_zero(-8.0, -2.0)
    ((0.0, 1024.0), (512.0, 1024.0), (-8.0, 0.0))
    """
    if 0 < 4 * lower <= upper:
        return 0.0, upper
    if 0 > 4 * upper >= lower:
        return lower, 0.0
    return lower, upper


def bucket_threshold(scale: Fraction, buckets: int, beta: Fraction) -> int:
    """Return the noisy count from which a bucket may be a bound: ⌈scale·(ln buckets + ln 1/β)⌉.

    Source: Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson, "Differentially Private SQL
    with Bounded User Contribution", PoPETs 2020, approximate bounds. A number is in one bucket: [0,
    u), [u, 2u), [2u, 4u), … of the unit u, or [−u, 0), [−2u, −u), … So one row moves one count by
    1, and neighbours move all counts together by at most Δ = ``spec.distance`` in L1: discrete
    Laplace of scale Δ/ε on every bucket, empty ones too, is ε-DP (``laplace_query``). The bounds
    are the ends of the outermost of B buckets whose noisy count reaches this t. As P(X ≥ t) ≤
    e^(−t/scale) ≤ β/B, any empty bucket reaches it with probability at most β in all.
    Then the end nearer to zero becomes zero where that is cheap (``with_zero``): the buckets near
    zero are small, with few rows in each.

    >>> bucket_threshold(Fraction(10), 100, Fraction(1, 10**6))
    185
    """
    with localcontext(Context(prec=60)):
        share = Decimal(buckets * beta.denominator) / Decimal(beta.numerator)
        exact = Decimal(scale.numerator) / Decimal(scale.denominator) * share.ln()
        return int((exact + Decimal(10) ** -20).to_integral_value(ROUND_CEILING))

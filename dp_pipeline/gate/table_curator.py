"""The questions that a private model may ask about tables of the rows, with their proofs.

In a proof, ⊕ stands before the effect of one row more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self, TypeVar, cast

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.domain import SIZE, Domain, Relation
from dp_pipeline.config.encoding import IntArray, Names
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate import checks
from dp_pipeline.gate.charge import CachedScan, CounterQuery, QueryExecutor, QuestionKey
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.mechanisms import (
    NoisyQuery,
    laplace_query,
    laplace_scale,
    refinement_query,
    vector_query,
)
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.parts import PartsCounter
from dp_pipeline.gate.rules import PredictedLabel
from dp_pipeline.gate.scores import PUBLIC_ROW_SCORES, Score
from dp_pipeline.gate.selection import ScoreSession
from dp_pipeline.results.accountant import GAUSSIAN, Accountant, Spend
from dp_pipeline.results.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.results.measurement import NoisyMarginal, NoisyNumber, SparseTable
from dp_pipeline.results.transcript import AnswerRecord


@dataclass(frozen=True)
class PaidMarginal:
    """A measured marginal with what was paid for it.

    amount   ε or ρ that was paid for it in all
    scale    scale of its discrete Laplace noise; None: its noise is Gaussian
    """

    marginal: NoisyMarginal
    amount: Fraction
    scale: Fraction | None


Name = TypeVar("Name")

PaidMarginals = dict[tuple[tuple[str, ...], Names], PaidMarginal]
"""(digests of the recodings of the rows, attributes) → the last measurement or refinement."""


@dataclass(frozen=True, eq=False, repr=False)
class TableCurator:
    """An interface by which a model asks about marginals and scores; it never shows a row.

    Each question goes through ``QueryExecutor``: charge, look up the transcript, and only when no
    answer is stored there, count the rows, add noise and store. A disclosure without noise, which
    benchmark rows alone allow, is recorded in place of a charge.

    domain            declared attributes
    distance          rows that two neighbouring data sets differ by, at most, under ``_relation``
    _benchmark        whether the rows are public, so that disclosures are allowed
    _paid_marginals   marginals of the same rows that this release alone may refine; measured ones
                      are added
    """

    _executor: QueryExecutor[Counter]
    domain: Domain
    distance: int
    _benchmark: bool = False
    _relation: Relation = "add_remove"
    _paid_marginals: PaidMarginals = field(default_factory=dict)

    @property
    def accountant(self) -> Accountant:
        return self._executor.accountant

    @property
    def currency(self) -> Currency:
        return self._executor.currency

    def __repr__(self) -> str:
        attributes = len(self.domain.names)
        return f"{type(self).__name__}({attributes} attributes, distance {self.distance})"

    def grouped(self, groupings: Mapping[str, Grouping]) -> Self:
        """Return a curator of the same rows and budget, with levels of attributes merged.

        groupings   attribute → the released group of each level

        The new curator's domain has no constraints. Every row is recoded by itself, so one row more
        is still one row more: all proofs hold. BoundaryViolation for groups that are not 0, 1, … in
        order.
        """
        checks.require_groupings(self.domain, groupings)
        grouped = {
            name: grouping.apply_to(self.domain[name]) for name, grouping in groupings.items()
        }
        # Constraints name levels, which the grouped attributes no longer have.
        domain = Domain(self.domain.with_attributes(grouped).attributes)
        derived = {name: DerivedAttribute((name,), g.groups) for name, g in groupings.items()}
        return self._recoded(("groups", groupings), derived, domain)

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Self:
        """Return a curator of the same rows and budget, with additional attributes, each derived
        from other attributes of the row.

        derived   new name → the attributes that it is derived from, and the public or released rule

        Every row is recoded by itself, so one row more is still one row more. BoundaryViolation for
        a name that an attribute has, and for a rule without a group for each cell.
        """
        checks.require_derived(self.domain, derived)
        added = tuple(attribute.as_attribute(name) for name, attribute in derived.items())
        domain = Domain((*self.domain, *added), self.domain.constraints)
        return self._recoded(("derived attributes", derived), derived, domain)

    def _recoded(
        self, description: QuestionKey, derived: Mapping[str, DerivedAttribute], domain: Domain
    ) -> Self:
        executor = self._executor.recoded(
            description, lambda counter: counter.recoded(derived, domain)
        )
        return replace(self, _executor=executor, domain=domain)

    def _laplace(
        self,
        words: str,
        key: QuestionKey,
        count: CounterQuery[Counter],
        *,
        l1_per_row: int = 1,
        epsilon: Fraction,
    ) -> IntArray:
        query = laplace_query(words, l1=l1_per_row * self.distance, epsilon=epsilon)
        return self._executor.charge_and_answer(query, key, count)

    def measure(self, attributes: Names, *, epsilon: Fraction) -> NoisyMarginal:
        """Charge ε and return the noisy marginal over ``attributes``; () stands for the number of
        rows.

        ``refine`` may refine it. ⊕ one row is in one cell: Δ1 = 1 a row.
        """
        checks.require_table(self.domain, attributes)
        query = laplace_query(_words(attributes), l1=self.distance, epsilon=epsilon)
        return self._marginals({attributes: query})[0]

    def measure_left_out(self) -> NoisyNumber:
        """Return the noisy number of rows that preparation left out, measured with the whole ε of
        the budget; no other answer counts them.

        It costs nothing beside the other questions, which may spend all of that ε too.
        BoundaryViolation for a second call, and for a budget in ρ.

        *Proof.* Neighbours differ by a counted and b left-out rows, a + b ≤ distance: a row is one
        or the other by itself, and of a person both are together at most ``protection.rows``. Each
        other question is proved by its change a row, times the distance: so a rows cost at most
        a/distance of its ε, of all of them a·ε/distance. This number changes by b, at the scale
        distance/ε. Together that is (a + b)·ε/distance ≤ ε. No other question counts left-out rows,
        and this one counts no others. ∎
        """
        words, epsilon = "rows left out", self.accountant.epsilon
        query = laplace_query(words, l1=self.distance, epsilon=epsilon)
        self.accountant.record_free_spend(query.spend)
        answer = self._executor.answer(
            query, ("rows left out",), lambda counter: counter.count_left_out()
        )
        return NoisyNumber(float(answer), float(query.spend.scale), "rows")

    def tabulate(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Charge all amounts, then return the noisy marginals, in the order of ``amounts``, from
        one scan of the rows.

        amounts   attributes → ε or ρ; () stands for the number of rows

        ``refine`` may refine them. ⊕ one row is in one cell of every table: Δ1 = Δ2 = 1 a row, with
        discrete Laplace noise for an ε, Gaussian for a ρ.
        """
        for attributes in amounts:
            checks.require_table(self.domain, attributes)
        return self._marginals(
            {names: self._table_query(_words(names), amount) for names, amount in amounts.items()}
        )

    def _table_query(self, words: str, amount: Fraction) -> NoisyQuery:
        l1, l2_squared = self.distance, self.distance**2
        return vector_query(self.currency, words, l1=l1, l2_squared=l2_squared, amount=amount)

    def _scale(self, epsilon: Fraction) -> Fraction:
        return laplace_scale(l1=self.distance, epsilon=epsilon)

    def _marginals(self, queries: Mapping[Names, NoisyQuery]) -> tuple[NoisyMarginal, ...]:
        keys = {names: ("marginal", names) for names in queries}
        records = self._count_all(queries, keys, lambda counter: counter.count(list(queries)))
        marginals = []
        for names, record in records.items():
            spend = queries[names].spend
            marginals.append(self._noisy_marginal(names, record, spend))
            self._remember(marginals[-1], spend.epsilon, record.scale)
        return tuple(marginals)

    def _noisy_marginal(self, names: Names, record: AnswerRecord, spend: Spend) -> NoisyMarginal:
        table = record.answer.reshape(self.domain.shape(names))
        return NoisyMarginal(names, table, spend.scale, spend.mechanism == GAUSSIAN)

    def _count_all(
        self,
        queries: Mapping[Name, NoisyQuery],
        keys: Mapping[Name, QuestionKey],
        scan: Callable[[Counter], list[Sealed]],
    ) -> dict[Name, AnswerRecord]:
        """Charge for all queries, then return their answer records by name.

        scan   counts the rows once and returns the exact answers in the order of ``queries``
        """
        self.accountant.charge(*(query.spend for query in queries.values()))
        cached, records = CachedScan(scan), dict[Name, AnswerRecord]()
        for position, (name, query) in enumerate(queries.items()):

            def count(counter: Counter, position: int = position) -> Sealed:
                return cached(counter)[position]

            records[name] = self._executor.answer_record(query, keys[name], count)
        return records

    def measure_pairs(self, amounts: Mapping[str, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Charge all amounts, then return noisy tables of the pairs of parts within a unit, by unit
        size, in the order of ``amounts``.

        amounts   attribute of a part with k levels → ε or ρ of its table (c, k, k), for c sizes

        ⊕ one unit weighs one unit's weight in every table: Δ1 = Δ2 = ``UNIT_WEIGHT`` (proof in
        ``gate.parts``), which is the distance. BoundaryViolation for another attribute.
        """
        parts, counter = self.domain.parts, self._executor.counter
        if parts is None or not {*amounts} <= {*parts.attributes}:
            raise BoundaryViolation(
                "Pairs within a unit can be measured of the attributes of its parts alone "
                f"({', '.join(parts.attributes) if parts else 'there are none'}), not of "
                f"{', '.join(amounts) or 'none'}"
            )
        if counter is not None and not isinstance(counter, PartsCounter):
            raise BoundaryViolation(
                "Pairs within a unit must be counted by a PartsCounter, not by "
                f"{type(counter).__name__}"
            )
        queries = {
            name: self._table_query(f"pairs of {parts.name} by {name}", amount)
            for name, amount in amounts.items()
        }
        records = self._count_all(
            queries,
            {name: ("pairs", name) for name in queries},
            lambda counter: cast(PartsCounter, counter).pairs(list(queries)),
        )
        return tuple(
            self._noisy_marginal((SIZE, name, name), record, queries[name].spend)
            for name, record in records.items()
        )

    def refine(self, amounts: Mapping[Names, Fraction]) -> tuple[NoisyMarginal, ...]:
        """Charge all amounts, then return earlier marginals with less noise, in the order of
        ``amounts``.

        amounts   attributes → ε or ρ in addition to what was paid for their marginal

        A marginal measured for e and refined for f has about the noise of one measured for e + f,
        and both answers together cost e + f. In ε the noise is exactly that
        (``refinement_query``); Δ1 = 1 a row. In ρ the marginal is measured once more; the mean
        weighted by precision, which is post-processing, has the variance of e + f, and what
        rounding adds. A refined marginal may be refined again. BoundaryViolation for a marginal
        that was not measured.
        """
        earlier = {names: self._last_answer(names) for names in amounts}
        totals = {names: first.amount + amounts[names] for names, first in earlier.items()}
        scales = dict[Names, Fraction | None].fromkeys(amounts)
        if self.currency == PURE:
            queries, keys = {}, {}
            for names, first in earlier.items():
                queries[names] = refinement_query(
                    f"{_words(names)}, refined",
                    l1=self.distance,
                    first=first.marginal.table,
                    before=first.amount,
                    scale=first.scale or Fraction(0),
                    epsilon=amounts[names],
                )
                arguments = (names, first.amount, first.scale, first.marginal.table)
                keys[names] = ("refined marginal", *arguments)
            records = self._count_all(queries, keys, lambda counter: counter.count(list(queries)))
            scales = {names: record.scale for names, record in records.items()}
            refined = [
                NoisyMarginal(names, record.answer.reshape(shape), self._scale(totals[names]))
                for names, record in records.items()
                for shape in [earlier[names].marginal.table.shape]
            ]
        else:
            refined = [
                earlier[again.attributes].marginal.averaged(again)
                for again in self.tabulate(amounts)
            ]
        for marginal in refined:
            self._remember(marginal, totals[marginal.attributes], scales[marginal.attributes])
        return tuple(refined)

    def _remember(self, marginal: NoisyMarginal, amount: Fraction, scale: Fraction | None) -> None:
        # A copy, since a model may write into its own table.
        copy = replace(marginal, table=marginal.table.copy())
        key = self._executor.recoding, marginal.attributes
        self._paid_marginals[key] = PaidMarginal(copy, amount, scale)

    def _last_answer(self, names: Names) -> PaidMarginal:
        last = self._paid_marginals.get((self._executor.recoding, names))
        if last is None or (last.scale is None) != (self.currency != PURE):
            fault = "was not measured" if last is None else "was measured in another currency"
            raise BoundaryViolation(
                f"A refinement needs a measured marginal, but that of {_words(names)} {fault}"
            )
        return last

    def choose(self, words: str, candidates: Mapping[Names, Score], *, epsilon: Fraction) -> Names:
        """Charge once and return the attributes of a candidate table with a nearly highest score.

        words        what is chosen, for the charge
        candidates   attributes → the score of their table
        epsilon      the charge, in the release's currency: ε or ρ; Δ∞ = max Δ_i
        """
        return self.open_scores(candidates).choose(words, tuple(candidates), amount=epsilon)

    def open_scores(self, candidates: Mapping[Names, Score]) -> ScoreSession:
        """Return a session of paid questions about the scores of tables; opening it costs nothing.

        candidates   attributes → the score of their table

        Proofs: ``gate.scores``, ``ScoreSession``. BoundaryViolation for no candidate, an undefined
        score, and a score that needs a public number of rows where that number is not public.
        """
        if any(isinstance(score, PUBLIC_ROW_SCORES) for score in candidates.values()):
            self._require_public_rows("scores")
        return ScoreSession(candidates, self._executor, domain=self.domain, distance=self.distance)

    def public_rows(self) -> int:
        """Return the exact number of rows, without a charge; BoundaryViolation, before a row is
        counted, unless it is public.

        It is public for benchmark rows under ``replace_one`` with one row a person: a neighbour has
        another row, not one more. Of sensitive rows, preparation could drop a replaced row.
        """
        self._require_public_rows("number of rows")
        return int(
            self._executor.answer_without_noise(
                "public, not noisy: number of rows",
                ("public number of rows",),
                lambda counter: counter.count([()])[0],
            )
        )

    def _require_public_rows(self, question: str) -> None:
        if not self._benchmark or self._relation != "replace_one" or self.distance != 2:
            raise BoundaryViolation(
                f"A question about the {question} needs a public number of rows, as of benchmark "
                "rows under replace_one with one row a person, not "
                f"benchmark={self._benchmark} under {self._relation} at distance {self.distance}"
            )

    def measure_marginal_error(
        self, released: dict[Names, IntArray], *, epsilon: Fraction
    ) -> IntArray:
        """Charge ε and return the noisy sum of the L1 errors of m released marginals, shape ().

        released   attributes → int64 q ≥ 0 of the marginal's shape, Σ q = 2^16

        The total is ⌊Σ over marginals and cells of |2^16·c − n·q| / 2^s⌋ for exact counts c of n
        rows, s = ``error_shift(m)``: for less than 2^37 rows it stays below 2^63.
        ⊕ one more row changes c in one cell by 1 and n by 1, so one marginal's sum by at
        most 2^16 + Σ q = 2^17, the sum of all by m · 2^17, and its whole part of 2^s by no more
        than that in parts: m · 2^17 is a whole number of them, as s ≤ 17.
        """
        checks.require_released(self.domain, released)
        shift = error_shift(len(released))

        def exact(counter: Counter) -> Sealed:
            tables = counter.count(list(released))
            total = 0
            for q, sealed in zip(released.values(), tables, strict=True):
                counts = sealed.open_at_the_gate()
                total += int(np.abs((counts << 16) - counts.sum() * q).sum())
            return Sealed(np.array(total >> shift, dtype=np.int64))

        return self._laplace(
            f"error of {len(released)} released marginals",
            ("error of marginals", released),
            exact,
            l1_per_row=(len(released) << 17) >> shift,
            epsilon=epsilon,
        )

    def sparse_table(
        self, attributes: tuple[str, ...], *, threshold: int, epsilon: Fraction
    ) -> SparseTable:
        """Charge ε and return the cells of a table whose noisy count is at least ``threshold``.

        attributes   one or more, with at most 2^62 cells together
        threshold    integer ≥ 1 that at most 2^20 empty cells reach on average

        ⊕ one row is in one cell of the table: Δ1 = 1 a row, for noise on *every* cell. The
        threshold is post-processing, and drawing only the cells that reach it changes no
        probability (``gate.sparse_sampler``). BoundaryViolation for other arguments.
        """
        words = f"cells of {', '.join(attributes)} from {threshold} rows on"
        spend = laplace_query(words, l1=self.distance, epsilon=epsilon).spend
        cells = checks.require_sparse(
            self.domain, attributes, threshold=threshold, scale=spend.scale
        )

        def draw(occupied: IntArray, noise: NoiseSource) -> IntArray:
            return noise.sparse_laplace(occupied, spend.scale, cells=cells, threshold=threshold)

        cells_above = self._executor.charge_and_answer(
            NoisyQuery(spend, draw),
            ("sparse table", attributes, threshold),
            lambda counter: counter.occupied(attributes),
        )
        shape = self.domain.shape(attributes)
        return SparseTable(attributes, shape, cells_above, threshold, spend.scale)

    def measure_mistakes(self, rule: PredictedLabel, *, epsilon: Fraction) -> IntArray:
        """Charge ε and return the noisy numbers of rows that a rule predicts correctly and
        incorrectly, (2,).

        ⊕ one row is predicted rightly or wrongly: Δ1 = 1 a row.
        """
        rule.require_exact(self.domain)
        return self._laplace(
            f"right and wrong predictions of {rule.target}",
            ("mistakes", rule),
            lambda counter: counter.mistakes(rule),
            epsilon=epsilon,
        )


def error_shift(marginals: int) -> int:
    """Return how many low bits to drop of a sum of errors of that many marginals, so that one row
    moves the rest by at most 2^26.

    >>> error_shift(511), error_shift(512), error_shift(2000)
    (0, 1, 2)
    """
    return max(0, marginals.bit_length() - 9)


def _words(attributes: Names) -> str:
    return f"marginal of {', '.join(attributes)}" if attributes else "number of rows"

"""Door: the one order in which every question is asked: charge, look, noise, store.

An exact answer lives inside ``_stored`` and what it calls, and nowhere else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Self

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.admissible import require_derived, require_groupings
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.paid_noise import PaidNoise, Prices
from dp_pipeline.release.accountant import LAPLACE, Accountant, Spend
from dp_pipeline.release.derived_attribute import DerivedAttribute
from dp_pipeline.release.grouping import Grouping
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.currency import Currency
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import Damaged
from dp_pipeline.schema.protection import Relation

Draw = Callable[[Counter], IntArray]
"""A look at the rows and its noise."""

Answer = Callable[[str, str, Draw], IntArray]
"""``answer(part, detail, draw)``: one of many answers to a charge that was made for all."""


class Door:
    """What every question goes through.

    counter      exact answers, or None: only the transcript can be replayed
    domain       declared attributes, public
    reach        rows that two neighbouring data sets differ by, at most
    accountant   holds the ε, or ρ, of this release; a charge above it raises BudgetExceeded
    transcript   every answer is stored there before it is returned
    noise        where the noise comes from
    benchmark    whether the rows are public: only then may anything be disclosed
    relation     what neighbouring data sets are; ``reach`` is the one under it
    recoding     words about groups of levels and derived attributes, for the transcript
    """

    def __init__(  # noqa: PLR0913
        self,
        counter: Counter | None,
        *,
        domain: Domain,
        reach: int,
        accountant: Accountant,
        transcript: Transcript,
        noise: NoiseSource,
        benchmark: bool = False,
        relation: Relation = "add_remove",
        recoding: str = "",
    ) -> None:
        self._domain, self._reach, self._accountant = domain, reach, accountant
        self._counter, self._transcript, self._noise = counter, transcript, noise
        self._benchmark, self._relation = benchmark, relation
        self._recoding = recoding

    @property
    def domain(self) -> Domain:
        """The declared attributes."""
        return self._domain

    @property
    def reach(self) -> int:
        """Rows that two neighbouring data sets differ by, at most; fixed when the door is made."""
        return self._reach

    @property
    def accountant(self) -> Accountant:
        """What this release may spend, and has spent."""
        return self._accountant

    @property
    def currency(self) -> Currency:
        """What an amount is counted in: ε, or ρ."""
        return self._accountant.currency

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.domain.names)} attributes, reach {self.reach})"

    def grouped(self, groupings: Mapping[str, Grouping]) -> Self:
        """The same door to tables where levels of some attributes are groups, made of what was
        released: same accountant, same transcript.

        groupings   attribute → the group of each of its levels; the others stay as they are

        Every row is recoded by itself, so a row more is a row more: all proofs hold as they are.
        """
        require_groupings(self._domain, groupings)
        domain = self._domain.replaced(
            {name: one.of(self._domain[name]) for name, one in groupings.items()}
        )
        said = str({name: one.groups for name, one in groupings.items()})
        counter = None if self._counter is None else self._counter.grouped(groupings)
        return self._recoded(counter, domain, f"groups {_digest(said)}")

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Self:
        """The same door to rows with attributes more, made of what is public or was released: same
        accountant, same transcript.

        derived   name → which others decide it, and how; the others stay as they are

        As for groups: every row is recoded by itself, so a row more is a row more.
        """
        require_derived(self._domain, derived)
        added = tuple(one.named(name) for name, one in derived.items())
        said = str({name: (one.attributes, one.groups) for name, one in derived.items()})
        counter = None if self._counter is None else self._counter.with_attributes(derived)
        domain = Domain((*self._domain, *added))
        return self._recoded(counter, domain, f"attributes {_digest(said)}")

    def _recoded(self, counter: Counter | None, domain: Domain, how: str) -> Self:
        """The same door to the same rows in other words, which the transcript says as well."""
        return type(self)(
            counter,
            domain=domain,
            reach=self._reach,
            accountant=self._accountant,
            transcript=self._transcript,
            noise=self._noise,
            benchmark=self._benchmark,
            relation=self._relation,
            recoding=f"{self._recoding}, {how}",
        )

    def _laplace(
        self, what: str, exact: Draw, *, l1_per_row: int, epsilon: Fraction, detail: str = ""
    ) -> IntArray:
        """A Laplace question from its charge to its answer; ``exact`` looks without noise."""
        spend = self._spend(what, l1_per_row, epsilon)
        self.accountant.charge(spend)
        return self._noisy(spend, exact, detail=detail)

    def _spend(self, what: str, l1_per_row: int, epsilon: Fraction) -> Spend:
        scale = self._scale(l1_per_row, epsilon)
        return Spend(what, LAPLACE, epsilon, l1_per_row * self.reach, scale)

    def _noisy(self, spend: Spend, exact: Draw, *, detail: str) -> IntArray:
        """The answer to a Laplace question that was charged."""

        def draw(counter: Counter) -> IntArray:
            return mechanisms.measure(
                exact(counter), l1=spend.sensitivity, epsilon=spend.epsilon, noise=self._noise
            )

        return self._stored(question(spend, detail), draw)

    @property
    def _prices(self) -> Prices:
        return Prices(self.currency, self._noise)

    def _ask(self, paid: PaidNoise, detail: str, exact: Draw) -> IntArray:
        """A question from its charge to its answer."""
        self.accountant.charge(paid.spend)
        return self._answer(paid, detail, exact)

    def _answer(self, paid: PaidNoise, detail: str, exact: Draw) -> IntArray:
        """The answer to a question that was charged."""
        asked = question(paid.spend, detail)
        return self._stored(asked, lambda counter: paid.make_noisy(exact(counter)))

    def _answers_to(self, spend: Spend) -> Answer:
        """How a session asks for what its one charge has paid for."""

        def answer(part: str, detail: str, draw: Draw) -> IntArray:
            asked = question(replace(spend, what=f"{spend.what}, {part}"), detail)
            return self._stored(asked, draw)

        return answer

    def _stored(self, question: str, draw: Draw) -> IntArray:
        """Look, then noise, for what was charged; stored before it is returned."""
        question += self._recoding
        stored = self._transcript.recall(question)
        if stored is not None:
            return stored
        if self._counter is None:
            raise Damaged(f"transcript: expected a stored answer to {question!r}, got none")
        noisy = draw(self._counter)
        self._transcript.store(question, noisy)
        return noisy

    def _scale(self, l1_per_row: int, epsilon: Fraction) -> Fraction:
        return mechanisms.laplace_scale(l1=l1_per_row * self.reach, epsilon=epsilon)


def question(spend: Spend, detail: str) -> str:
    """The words of one question in the transcript; ``detail`` is long and public, so hashed."""
    tail = f" [{_digest(detail)}]" if detail else ""
    symbol = "ε" if spend.currency == "pure" else "ρ"
    return f"{spend.mechanism}: {spend.what}{tail}, Δ={spend.sensitivity}, {symbol}={spend.epsilon}"


def _digest(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()[:16]

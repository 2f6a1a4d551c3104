"""Door: the one order in which every question is asked: charge, look, noise, store.

An exact answer lives inside ``_stored`` and what it calls, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Self

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.admissible import require_derived, require_groupings
from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.gate.paid_noise import PaidNoise, Prices
from dp_pipeline.gate.question import Asked, Question, digest_of, question
from dp_pipeline.release.accountant import LAPLACE, Accountant, Spend
from dp_pipeline.release.derived_attribute import DerivedAttribute
from dp_pipeline.release.grouping import Grouping
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.currency import Currency
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.encoding import IntArray
from dp_pipeline.schema.errors import NoAnswer
from dp_pipeline.schema.protection import Relation

Draw = Callable[[Counter], IntArray]
"""A look at the rows and its noise."""

Answer = Callable[[str, Asked, Draw], IntArray]
"""``answer(part, asked, draw)``: one of many answers to a charge that was made for all."""


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
    recoding     digests of groups of levels and derived attributes, for the transcript
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
        recoding: tuple[str, ...] = (),
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
        counter = None if self._counter is None else self._counter.grouped(groupings)
        return self._recoded(counter, domain, ("groups", groupings))

    def with_attributes(self, derived: Mapping[str, DerivedAttribute]) -> Self:
        """The same door to rows with attributes more, made of what is public or was released: same
        accountant, same transcript.

        derived   name → which others decide it, and how; the others stay as they are

        As for groups: every row is recoded by itself, so a row more is a row more.
        """
        require_derived(self._domain, derived)
        added = tuple(one.named(name) for name, one in derived.items())
        counter = None if self._counter is None else self._counter.with_attributes(derived)
        domain = Domain((*self._domain, *added))
        return self._recoded(counter, domain, ("derived attributes", derived))

    def _recoded(self, counter: Counter | None, domain: Domain, how: Asked) -> Self:
        """The same door to the same rows in other words, which the transcript knows as well."""
        return type(self)(
            counter,
            domain=domain,
            reach=self._reach,
            accountant=self._accountant,
            transcript=self._transcript,
            noise=self._noise,
            benchmark=self._benchmark,
            relation=self._relation,
            recoding=(*self._recoding, digest_of(how)),
        )

    def _laplace(
        self, what: str, asked: Asked, exact: Draw, *, l1_per_row: int, epsilon: Fraction
    ) -> IntArray:
        """A Laplace question from its charge to its answer; ``exact`` looks without noise."""
        spend = self._spend(what, l1_per_row, epsilon)
        self.accountant.charge(spend)
        return self._noisy(spend, asked, exact)

    def _spend(self, what: str, l1_per_row: int, epsilon: Fraction) -> Spend:
        scale = self._scale(l1_per_row, epsilon)
        return Spend(what, LAPLACE, epsilon, l1_per_row * self.reach, scale)

    def _noisy(self, spend: Spend, asked: Asked, exact: Draw) -> IntArray:
        """The answer to a Laplace question that was charged."""

        def draw(counter: Counter) -> IntArray:
            return mechanisms.measure(
                exact(counter), l1=spend.sensitivity, epsilon=spend.epsilon, noise=self._noise
            )

        return self._paid(spend, asked, draw)

    @property
    def _prices(self) -> Prices:
        return Prices(self.currency, self._noise)

    def _ask(self, paid: PaidNoise, asked: Asked, exact: Draw) -> IntArray:
        """A question from its charge to its answer."""
        self.accountant.charge(paid.spend)
        return self._answer(paid, asked, exact)

    def _answer(self, paid: PaidNoise, asked: Asked, exact: Draw) -> IntArray:
        """The answer to a question that was charged."""
        return self._paid(paid.spend, asked, lambda counter: paid.make_noisy(exact(counter)))

    def _answers_to(self, spend: Spend) -> Answer:
        """How a session asks for what its one charge has paid for."""

        def answer(part: str, asked: Asked, draw: Draw) -> IntArray:
            return self._paid(replace(spend, what=f"{spend.what}, {part}"), asked, draw)

        return answer

    def _paid(self, spend: Spend, asked: Asked, draw: Draw) -> IntArray:
        """The answer that a charge has paid for."""
        return self._stored(question("", asked, spend, self._recoding), draw)

    def _without_noise(self, what: str, asked: Asked, exact: Draw) -> IntArray:
        """The answer to what is public, or disclosed on benchmarks."""
        return self._stored(question(what, asked, None, self._recoding), exact)

    def _stored(self, asked: Question, draw: Draw) -> IntArray:
        """Look, then noise, for what was charged; stored before it is returned."""
        stored = self._transcript.recall(asked.identity, words=asked.words)
        if stored is not None:
            return stored
        if self._counter is None:
            raise NoAnswer(f"transcript: expected a stored answer to {asked.words!r}, got none")
        noisy = draw(self._counter)
        self._transcript.store(asked.identity, noisy, words=asked.words)
        return noisy

    def _scale(self, l1_per_row: int, epsilon: Fraction) -> Fraction:
        return mechanisms.laplace_scale(l1=l1_per_row * self.reach, epsilon=epsilon)

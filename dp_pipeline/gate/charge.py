"""Door: the one order in which every question is asked: charge, look, noise, store.

An exact answer lives inside ``_stored`` and what it calls, and nowhere else.

Once: one look at the rows for several answers.

PaidNoise: a charge and the noise that it pays for, in the currency of the release.

Question: what is asked of the rows, in words for people and as a digest for programs.

An answer that was paid for is given again to the question that it belongs to, and to no other. So
a question is known by everything that its answer depends on beside the rows, and by no word: words
may be chosen better one day, and an unfinished release must not be lost by that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Generic, Self, TypeVar

import numpy as np

from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.checks import require_derived, require_groupings
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.release.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    NOISY_MAX,
    Accountant,
    Spend,
)
from dp_pipeline.release.derived_attribute import DerivedAttribute, Grouping
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.amounts import PURE, Currency
from dp_pipeline.spec.domain import Domain, Relation
from dp_pipeline.spec.encoding import IntArray
from dp_pipeline.spec.errors import NoAnswer
from dp_pipeline.spec.formats import is_said

Found = TypeVar("Found")


class Once(Generic[Found]):
    """A look that is taken at the first answer that needs it, and kept for the others."""

    def __init__(self, look: Callable[[Counter], Found]) -> None:
        self._look = look
        self._found: Found | None = None

    def __call__(self, counter: Counter) -> Found:
        if self._found is None:
            self._found = self._look(counter)
        return self._found


@dataclass(frozen=True)
class PaidNoise:
    """One question's charge, and the function that makes its exact answer noisy."""

    spend: Spend
    make_noisy: Callable[[IntArray], IntArray]


@dataclass(frozen=True)
class Prices:
    """What noise costs in one release.

    currency   ε or ρ: which mechanisms are used where both would do
    noise      where it is drawn
    """

    currency: Currency
    noise: NoiseSource

    def of_vector(self, what: str, *, l1: int, l2_squared: int, amount: Fraction) -> PaidNoise:
        """Noise on whole numbers that a protected unit moves by at most ``l1`` in L1 and by
        ``l2_squared`` in squared L2: Laplace for an ε, Gaussian for a ρ.
        """
        if self.currency == PURE:
            return self.of_laplace(what, l1=l1, epsilon=amount)
        return self.of_gaussian(what, l2_squared=l2_squared, rho=amount)

    def of_laplace(self, what: str, *, l1: int, epsilon: Fraction) -> PaidNoise:
        """Discrete Laplace noise on a vector."""
        scale = mechanisms.laplace_scale(l1=l1, epsilon=epsilon)

        def make_noisy(exact: IntArray) -> IntArray:
            return mechanisms.measure(exact, l1=l1, epsilon=epsilon, noise=self.noise)

        return PaidNoise(Spend(what, LAPLACE, epsilon, l1, scale), make_noisy)

    def of_gaussian(self, what: str, *, l2_squared: int, rho: Fraction) -> PaidNoise:
        """Discrete Gaussian noise on a vector."""
        variance = mechanisms.gaussian_variance(l2_squared=l2_squared, rho=rho)

        def make_noisy(exact: IntArray) -> IntArray:
            return mechanisms.measure_gaussian(
                exact, l2_squared=l2_squared, rho=rho, noise=self.noise
            )

        return PaidNoise(Spend(what, GAUSSIAN, rho, l2_squared, variance, "zcdp"), make_noisy)

    def of_choice(self, what: str, *, linf: int, amount: Fraction) -> PaidNoise:
        """The place of a nearly highest score, of which a unit moves each by at most ``linf``:
        noisy max for an ε, the exponential mechanism for a ρ.
        """
        if self.currency == PURE:
            scale = mechanisms.choice_scale(linf=linf, epsilon=amount)
            spend = Spend(what, NOISY_MAX, amount, linf, scale)
        else:
            scale = mechanisms.exponential_scale(linf=linf, rho=amount)
            spend = Spend(what, EXPONENTIAL, amount, linf, scale, "zcdp")

        def make_noisy(scores: IntArray) -> IntArray:
            if self.currency == PURE:
                at = mechanisms.choose(scores, linf=linf, epsilon=amount, noise=self.noise)
            else:
                at = mechanisms.choose_exponential(scores, linf=linf, rho=amount, noise=self.noise)
            return np.array(at, dtype=np.int64)

        return PaidNoise(spend, make_noisy)


VERSION = 1
"""Of the identities. Another one where the same arguments would be answered otherwise, as by
another formula of a score: what was begun before cannot be finished then, and stays as it is.
"""

Asked = tuple[object, ...]
"""The kind of a question, then what it is about: names, whole numbers, exact fractions, arrays of
whole numbers, and frozen dataclasses, tuples and mappings of such. A kind's name never changes.
"""


@dataclass(frozen=True)
class Question:
    """One question of the gate.

    words      for people
    identity   hex digest; two questions have the same one exactly if the answer to one, before
               its noise was drawn, may have been the answer to the other
    """

    words: str
    identity: str


def question(
    what: str, asked: Asked, spend: Spend | None, recoding: tuple[str, ...] = ()
) -> Question:
    """The question that a charge has paid for.

    what       in words, where there is no charge; else those of the charge are taken
    spend      how it is made noisy; None: not at all
    recoding   digests of what was done to the rows before they are looked at, in order
    """
    paid = None
    if spend is not None:
        paid = [spend.mechanism, spend.epsilon, spend.sensitivity, spend.scale, spend.currency]
        symbol = "ε" if spend.currency == "pure" else "ρ"
        what = f"{spend.mechanism}: {spend.what}, Δ={spend.sensitivity}, {symbol}={spend.epsilon}"
    return Question(what, digest_of((VERSION, asked, paid, recoding)))


def digest_of(value: object) -> str:
    """Hex digest of what is public about a question, the same under every program and computer.

    Raises TypeError for what has no exact text, such as a float.

    >>> digest_of(("grid", ("x", "y"), 8)) == digest_of(["grid", ["x", "y"], 8])
    True
    """
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    """A value as JSON; different values of one type never as the same."""
    if is_dataclass(value):
        named = [(one, getattr(value, one.name)) for one in fields(value)]
        value = [(one.name, content) for one, content in named if is_said(one, content)]
    elif isinstance(value, Mapping):
        value = list(value.items())
    match value:
        case None | bool() | int() | str():
            return value
        case np.integer():
            return int(value)
        case Fraction():
            return str(value)
        case tuple() | list():
            return [_plain(one) for one in value]
        case np.ndarray() if value.dtype.kind in "iu":
            return [list(value.shape), hashlib.sha256(value.astype("<i8").tobytes()).hexdigest()]
    raise TypeError(f"question: expected what has an exact text, got {type(value).__name__}")


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

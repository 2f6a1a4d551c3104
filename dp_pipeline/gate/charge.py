"""The measurement route, the one order in which every question is asked of the rows: charge, then
look, then noise, then store; only then is there an answer. An exact answer lives inside
``Route.answer`` and what it calls, and nowhere else.

An answer that was paid for is given again to the question that it belongs to, and to no other. So
a question is known by everything that its answer depends on beside the rows, and by no word: words
may be chosen better one day, and an unfinished release must not be lost by that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import NoAnswer
from dp_pipeline.gate import mechanisms
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.noise import NoiseSource, drawn_scale
from dp_pipeline.results.accountant import (
    EXPONENTIAL,
    GAUSSIAN,
    LAPLACE,
    LINF,
    NOISY_MAX,
    REFINED,
    Accountant,
    Spend,
)
from dp_pipeline.results.transcript import AnswerRecord, Transcript

Found = TypeVar("Found")
Rows = TypeVar("Rows")
"""What gives exact answers about rows: a Counter, or an UndeclaredCounter."""


class Once(Generic[Found]):
    """A look that is taken at the first answer that needs it, and kept for the others."""

    def __init__(self, look: Callable[[Counter], Found]) -> None:
        self._look = look
        self._found: Found | None = None

    def __call__(self, counter: Counter) -> Found:
        if self._found is None:
            self._found = self._look(counter)
        return self._found


VERSION = 1
"""Of the identities. Another one where the same arguments would be answered otherwise, as by
another formula of a score: what was begun before cannot be finished then, and stays as it is.
"""

Asked = tuple[object, ...]
"""The kind of a question, then what it is about: names, whole numbers, exact fractions, arrays of
whole numbers, and frozen dataclasses, tuples and mappings of such. A kind's name never changes.
"""


@dataclass(frozen=True)
class NamedQuestion:
    """One question of the gate.

    words      for people
    identity   hex digest; two questions have the same one exactly if the answer to one, before
               its noise was drawn, may have been the answer to the other
    """

    words: str
    identity: str


def question(
    what: str, asked: Asked, spend: Spend | None, recoding: tuple[str, ...] = ()
) -> NamedQuestion:
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
    return NamedQuestion(what, digest_of((VERSION, asked, paid, recoding)))


def digest_of(value: object) -> str:
    """Hex digest of what is public about a question, the same under every program and computer.

    Raises TypeError for what has no exact text, such as a float.

    >>> digest_of(("grid", ("x", "y"), 8)) == digest_of(["grid", ["x", "y"], 8])
    True
    """
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_AS_THEY_ARE = frozenset({str, int})


def _plain(value: object) -> object:
    """A value as JSON; different values of one type never as the same."""
    # Most are names and whole numbers, thousands in a question about all pairs.
    if type(value) in _AS_THEY_ARE:
        return value
    if is_dataclass(value):
        value = [(one.name, getattr(value, one.name)) for one in fields(value)]
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


Look = Callable[[Rows], IntArray]
"""A look at the rows without noise."""

Exact = Look[Counter]
"""One at prepared rows."""


@dataclass(frozen=True)
class PaidNoise:
    """One question's charge, and the function that makes its exact answer noisy.

    scale_of   size of the answer → scale at which discrete Laplace noise is drawn; None: other
               noise, which nothing refines
    """

    spend: Spend
    make_noisy: Callable[[IntArray], IntArray]
    scale_of: Callable[[int], Fraction] | None = None


@dataclass(frozen=True)
class Route(Generic[Rows]):
    """What every question of one release goes through, from its charge to its answer.

    counter      exact answers, or None: only the transcript can be replayed
    accountant   holds the ε, or ρ, of this release; a charge above it raises BudgetExceeded
    transcript   every answer is stored there before it is returned
    noise        where the noise comes from
    recoding     digests of what was done to the rows before they are looked at, in order
    """

    counter: Rows | None
    accountant: Accountant
    transcript: Transcript
    noise: NoiseSource
    recoding: tuple[str, ...] = ()

    @property
    def currency(self) -> Currency:
        """What an amount is counted in: ε, or ρ."""
        return self.accountant.currency

    def vector(self, what: str, *, l1: int, l2_squared: int, amount: Fraction) -> PaidNoise:
        """Noise on whole numbers that a protected unit moves by at most ``l1`` in L1 and by
        ``l2_squared`` in squared L2: Laplace for an ε, Gaussian for a ρ.
        """
        if self.currency == PURE:
            return self.laplace(what, l1=l1, epsilon=amount)
        return self.gaussian(what, l2_squared=l2_squared, rho=amount)

    def laplace(self, what: str, *, l1: int, epsilon: Fraction) -> PaidNoise:
        """Discrete Laplace noise on a vector."""
        scale = mechanisms.laplace_scale(l1=l1, epsilon=epsilon)
        draw = partial(mechanisms.measure, l1=l1, epsilon=epsilon, noise=self.noise)
        scale_of = partial(drawn_scale, self.noise, scale)
        return PaidNoise(Spend(what, LAPLACE, epsilon, l1, scale), draw, scale_of)

    def refined(
        self,
        what: str,
        *,
        l1: int,
        before: Fraction,
        scale: Fraction,
        epsilon: Fraction,
        first: IntArray,
    ) -> PaidNoise:
        """Less noise on a vector whose noisy answer ``first``, of noise that was drawn at
        ``scale``, has cost ``before`` until now.
        """
        draw = partial(
            mechanisms.refine,
            first=first,
            l1=l1,
            before=before,
            scale=scale,
            epsilon=epsilon,
            noise=self.noise,
        )
        added = mechanisms.laplace_scale(l1=l1, epsilon=epsilon)
        finer = mechanisms.laplace_scale(l1=l1, epsilon=before + epsilon)
        return PaidNoise(Spend(what, REFINED, epsilon, l1, added), draw, lambda _: finer)

    def linf(self, what: str, *, linf: int, epsilon: Fraction) -> PaidNoise:
        """Noise of the L∞ mechanism on a vector that a unit moves by at most ``linf`` anywhere."""
        scale = mechanisms.linf_scale(linf=linf, epsilon=epsilon)
        draw = partial(mechanisms.measure_linf, linf=linf, epsilon=epsilon, noise=self.noise)
        return PaidNoise(Spend(what, LINF, epsilon, linf, scale), draw)

    def gaussian(self, what: str, *, l2_squared: int, rho: Fraction) -> PaidNoise:
        """Discrete Gaussian noise on a vector."""
        variance = mechanisms.gaussian_variance(l2_squared=l2_squared, rho=rho)
        draw = partial(
            mechanisms.measure_gaussian, l2_squared=l2_squared, rho=rho, noise=self.noise
        )
        return PaidNoise(Spend(what, GAUSSIAN, rho, l2_squared, variance, "zcdp"), draw)

    def choice(self, what: str, *, linf: int, amount: Fraction) -> PaidNoise:
        """The place of a nearly highest score, of which a unit moves each by at most ``linf``:
        noisy max for an ε, the exponential mechanism for a ρ.
        """
        if self.currency == PURE:
            scale = mechanisms.choice_scale(linf=linf, epsilon=amount)
            spend = Spend(what, NOISY_MAX, amount, linf, scale)
            choose = partial(mechanisms.choose, linf=linf, epsilon=amount, noise=self.noise)
        else:
            scale = mechanisms.exponential_scale(linf=linf, rho=amount)
            spend = Spend(what, EXPONENTIAL, amount, linf, scale, "zcdp")
            choose = partial(mechanisms.choose_exponential, linf=linf, rho=amount, noise=self.noise)
        return PaidNoise(spend, lambda scores: np.array(choose(scores), dtype=np.int64))

    def ask(self, paid: PaidNoise, asked: Asked, exact: Look[Rows]) -> IntArray:
        """A question from its charge to its answer."""
        self.accountant.charge(paid.spend)
        return self.answer(paid, asked, exact)

    def answer(self, paid: PaidNoise, asked: Asked, exact: Look[Rows]) -> IntArray:
        """The answer that a charge has paid for: look, then noise; stored before it is returned."""
        return self.record(paid, asked, exact).answer

    def record(self, paid: PaidNoise, asked: Asked, exact: Look[Rows]) -> AnswerRecord:
        """Return that answer with the scale at which its noise was drawn."""
        known = question("", asked, paid.spend, self.recoding)
        stored = self.transcript.recall(known.identity, words=known.words)
        if stored is not None:
            return stored
        counts = exact(self._rows(known))
        scale = None if paid.scale_of is None else paid.scale_of(counts.size)
        return self._store(known, paid.make_noisy(counts), scale)

    def answer_without_noise(self, what: str, asked: Asked, exact: Look[Rows]) -> IntArray:
        """The answer to what is public, or disclosed on benchmarks."""
        known = question(what, asked, None, self.recoding)
        stored = self.transcript.recall(known.identity, words=known.words)
        if stored is not None:
            return stored.answer
        return self._store(known, exact(self._rows(known))).answer

    def _rows(self, known: NamedQuestion) -> Rows:
        if self.counter is None:
            raise NoAnswer(f"transcript: expected a stored answer to {known.words!r}, got none")
        return self.counter

    def _store(
        self, known: NamedQuestion, answer: IntArray, scale: Fraction | None = None
    ) -> AnswerRecord:
        return self.transcript.store(known.identity, answer, words=known.words, scale=scale)

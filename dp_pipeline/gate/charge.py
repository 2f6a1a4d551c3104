"""The order in which every question is asked: charge, count the rows, add noise, store, answer.

An exact answer exists only while ``QueryExecutor`` runs. A stored answer is given again only
to the question that it belongs to: a question is identified by everything but the rows that its
answer depends on, and not by its words, so that better words do not lose an unfinished release.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from dp_pipeline.config.amounts import Currency
from dp_pipeline.config.encoding import IntArray
from dp_pipeline.config.errors import NoAnswer
from dp_pipeline.gate.counter import Counter, Sealed
from dp_pipeline.gate.mechanisms import NoisyQuery
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.results.accountant import Accountant, Spend
from dp_pipeline.results.transcript import AnswerRecord, Transcript

Counts = TypeVar("Counts")
AnyCounter = TypeVar("AnyCounter")
"""The source of exact answers about rows: a Counter, or an UndeclaredDomainCounter."""

OtherCounter = TypeVar("OtherCounter")

CounterQuery = Callable[[AnyCounter], Sealed]
"""An exact question: a function of the counter, whose result has no noise yet."""


class CachedScan(Generic[Counts]):
    """A function of a counter whose first call scans the rows.

    Later calls return the same result, whichever counter they get.
    """

    def __init__(self, scan: Callable[[Counter], Counts]) -> None:
        self._scan = scan
        self._counts: Counts | None = None

    def __call__(self, counter: Counter) -> Counts:
        if self._counts is None:
            self._counts = self._scan(counter)
        return self._counts


DIGEST_VERSION = 1
"""Version of the digests of questions. It rises when equal arguments get another answer, such as by
another formula of a score; a release that was started before cannot be finished then.
"""

QuestionKey = tuple[object, ...]
"""The kind of a question, then its arguments: names, integers, exact fractions, integer arrays, and
frozen dataclasses, tuples and mappings of them. A kind's name never changes.
"""


def question_digest(key: QuestionKey, spend: Spend | None, recoding: tuple[str, ...] = ()) -> str:
    """Return a hex digest, equal for two questions exactly if one stored answer fits both.

    spend      the charge, with mechanism and scale of the noise; None: no noise
    recoding   digests of the recodings of the rows before they are counted, in order
    """
    price = None
    if spend is not None:
        price = [spend.mechanism, spend.epsilon, spend.sensitivity, spend.scale, spend.currency]
    return digest_of((DIGEST_VERSION, key, price, recoding))


def digest_of(value: object) -> str:
    """Return the SHA-256 of public arguments as hexadecimal text, the same on every computer.

    Raises TypeError for what has no exact text, such as a float.

    >>> digest_of(("grid", ("x", "y"), 8)) == digest_of(["grid", ["x", "y"], 8])
    True
    """
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_JSON_TYPES = frozenset({str, int})


def _plain(value: object) -> object:
    # Most are names and integers, thousands in a question about all pairs.
    if type(value) in _JSON_TYPES:
        return value
    if is_dataclass(value):
        value = [(field.name, getattr(value, field.name)) for field in fields(value)]
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
            return [_plain(item) for item in value]
        case np.ndarray() if value.dtype.kind in "iu":
            return [list(value.shape), hashlib.sha256(value.astype("<i8").tobytes()).hexdigest()]
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        kind = f"NumPy array of {value.dtype}"
    raise TypeError(
        "A question to the gate must be made of texts, integers, fractions, arrays of integers, "
        f"and lists and mappings of them, but it has a {kind}: report this fault of the model"
    )


@dataclass(frozen=True)
class QueryExecutor(Generic[AnyCounter]):
    """A path of every question of one release through charge, transcript, count and noise.

    counter      exact answers; None: the transcript is replayed, and NoAnswer is raised for a
                 question that it does not answer
    accountant   holds the ε, or ρ, of this release; a charge above it raises BudgetExceeded
    transcript   every answer is stored there before it is returned
    noise        where the noise comes from
    recoding     digests of the recodings of the rows before they are counted, in order
    """

    counter: AnyCounter | None
    accountant: Accountant
    transcript: Transcript
    noise: NoiseSource
    recoding: tuple[str, ...] = ()

    @property
    def currency(self) -> Currency:
        """The currency of the accountant's budget: ε or ρ."""
        return self.accountant.currency

    def recoded(
        self, description: QuestionKey, recode: Callable[[AnyCounter], OtherCounter]
    ) -> "QueryExecutor[OtherCounter]":
        """Return an executor of the same budget, transcript and noise for recoded rows.

        description   the recoding, which is part of every question about them
        """
        counter = None if self.counter is None else recode(self.counter)
        recoding = (*self.recoding, digest_of(description))
        return QueryExecutor(counter, self.accountant, self.transcript, self.noise, recoding)

    def charge_and_answer(
        self, query: NoisyQuery, key: QuestionKey, count: CounterQuery[AnyCounter]
    ) -> IntArray:
        """Charge for a query; return its noisy answer, from the transcript or drawn and stored."""
        self.accountant.charge(query.spend)
        return self.answer(query, key, count)

    def answer(
        self, query: NoisyQuery, key: QuestionKey, count: CounterQuery[AnyCounter]
    ) -> IntArray:
        """Return the noisy answer to a query that was charged before."""
        return self.answer_record(query, key, count).answer

    def answer_record(
        self, query: NoisyQuery, key: QuestionKey, count: CounterQuery[AnyCounter]
    ) -> AnswerRecord:
        """Return the record of the noisy answer to a query that was charged before; its ``scale``
        is that of the Laplace noise, or None for other noise."""
        spend = query.spend
        cost = f"{'ε' if spend.currency == 'pure' else 'ρ'}={spend.epsilon}"
        words = f"{spend.mechanism}: {spend.what}, Δ={spend.sensitivity}, {cost}"
        return self._recall_or_store(words, key, count, query)

    def answer_without_noise(
        self, words: str, key: QuestionKey, count: CounterQuery[AnyCounter]
    ) -> IntArray:
        """Return the exact answer about public or disclosed rows; charge nothing.

        The caller has recorded the disclosure.
        """
        return self._recall_or_store(words, key, count, None).answer

    def _recall_or_store(
        self,
        words: str,
        key: QuestionKey,
        count: CounterQuery[AnyCounter],
        query: NoisyQuery | None,
    ) -> AnswerRecord:
        """Return the stored answer to a question, or count, add noise, store and return it.

        query   None: no noise
        """
        identity = question_digest(key, query.spend if query else None, self.recoding)
        stored = self.transcript.recall(identity, words=words)
        if stored is not None:
            return stored
        if self.counter is None:
            raise NoAnswer(
                f"This replay needs a stored answer to {words!r}, but the transcript has none: "
                "this program asks more than the one that drew the answers"
            )
        answer, scale = count(self.counter).open_at_the_gate(), None
        if query is not None:
            scale = None if query.scale_of is None else query.scale_of(answer.size, self.noise)
            answer = query.add_noise(answer, self.noise)
        return self.transcript.store(identity, answer, words=words, scale=scale)

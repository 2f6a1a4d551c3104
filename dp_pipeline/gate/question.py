"""Question: what is asked of the rows, in words for people and as a digest for programs.

An answer that was paid for is given again to the question that it belongs to, and to no other. So
a question is known by everything that its answer depends on beside the rows, and by no word: words
may be chosen better one day, and an unfinished release must not be lost by that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.release.accountant import Spend
from dp_pipeline.schema.as_before import is_said

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

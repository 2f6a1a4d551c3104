"""One release as it is stored and published, and the key that makes two releases the same one.

JSON and columns of numbers or text only, with None where a value is missing: nothing in it is code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency, epsilon_text
from dp_pipeline.config.errors import BoundaryViolation, Damaged
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.results.accountant import Spend, rho_costs
from dp_pipeline.results.clusters import Tables, batches_of
from dp_pipeline.results.measurement import NoisyNumber

EARLIER_EVALUATION = "earlier_evaluation"
"""The fact of a bundle made again that holds the ε of the evaluation it left out."""

LEARNED = "learned_from"
"""The fact of a bundle, and of its charge: where in the store the release lies that it was planned
from.
"""

PRIOR = "prior"
"""The fact of a bundle, and of its charge, that names the public rows that it used, with a digest
of them.
"""

REFINES, REFINED_FROM = "refines", "refined_from"
"""The facts of a bundle, and of its charge, that name the key and the ε of the release that it
refines: one of the same rows, whose cost is a part of what both cost together.
"""

K_ANONYMITY = "promise"
"""The fact of a bundle without any ε that names what it promises of its own table: k-anonymity."""

ALLOWED = "allow_not_dp"
"""The fact that says whether its data set file allows such a release by name."""


@dataclass(frozen=True)
class Bundle:
    """One release.

    key             hex digest of its release key
    facts           data set, model, parameters, ε, snapshot, noise, versions …: text
    spends          every charge, in order; in pure ε they add up to the release's
    quality         quality numbers that were paid for with part of that ε
    tables          table name → column name → values (m,)
    transcript      digest of the stored noisy answers that this was made from
    """

    key: str
    facts: Mapping[str, str]
    spends: tuple[Spend, ...]
    quality: Mapping[str, NoisyNumber]
    tables: Tables
    transcript: str

    @property
    def spent(self) -> Fraction:
        """Σ of the costs; no ε or ρ of the release where ``is_dp`` is False."""
        return sum(self.costs, Fraction(0))

    @property
    def currency(self) -> Currency:
        """What its population pays in."""
        delta = self.facts.get("delta")
        return Currency(None if delta is None else Fraction(delta))

    @property
    def budget(self) -> Currency:
        """What its model accounted in: pure ε, or ρ."""
        # A population that pays in pure ε has models of pure ε alone, and says nothing.
        return PURE if self.facts.get("currency", PURE.name) == PURE.name else self.currency

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """What each charge cost its population, in what that pays in."""
        if self.currency == PURE:
            return tuple(spend.epsilon for spend in self.spends)
        last = self.model_spends
        drawn = rho_costs(self.spends[:last], budget=self.budget)
        return (*drawn, *rho_costs(self.spends[last:], budget=PURE))

    @property
    def model_spends(self) -> int:
        """How many charges are the model's own: the last ones are of the quality numbers."""
        left = Fraction(self.facts["evaluation"]) if self.quality else Fraction(0)
        first = len(self.spends)
        while left > 0 and first > 0:
            first -= 1
            left -= self.spends[first].epsilon
        return first

    @property
    def charged(self) -> Fraction:
        """What the ledger was charged: with the evaluation of earlier centres, where this was made
        again from the same answers with other centres.
        """
        return self.spent + self.currency.cost_of(self._earlier, PURE)

    @property
    def charged_in_all(self) -> Fraction:
        """The same with what the model that it refines has spent, which is what holds for it where
        nothing else is known of that one: what such a release costs that refines none.
        """
        if not self._coarse:
            return self.charged
        return self.charged + self.currency.cost_of(
            self.budget.amount_of(self._coarse), self.budget
        )

    @property
    def _coarse(self) -> Fraction:
        """The ε that it was refined from; 0 where it was drawn by itself."""
        return Fraction(self.facts.get(REFINED_FROM, "0"))

    @property
    def _earlier(self) -> Fraction:
        return Fraction(self.facts.get(EARLIER_EVALUATION, "0"))

    @property
    def epsilon(self) -> Fraction:
        """The ε that holds for all that was charged, together with what it refines: pure where
        every charge was, else at the δ of its population, rounded up.
        """
        if self.budget == PURE:
            return sum((spend.epsilon for spend in self.spends), self._earlier + self._coarse)
        return self.currency.epsilon_of(self.charged_in_all)

    @property
    def own_delta(self) -> Fraction:
        """Its own δ, beside that of its population's conversion: that of discovered levels."""
        return Fraction(self.facts.get("own_delta", "0"))

    @property
    def kind(self) -> str:
        """``dp``, or ``not-dp`` where no finite ε holds for it."""
        return self.facts["kind"]

    @property
    def is_dp(self) -> bool:
        """Whether a finite ε holds for it."""
        return self.kind == "dp"

    @property
    def is_k_anonymous(self) -> bool:
        """Whether it was made to promise something of its own table, and no ε."""
        return not self.is_dp and K_ANONYMITY in self.facts

    @property
    def spent_text(self) -> str:
        """The ε that was charged for it, exactly, and its ρ where the population pays in ρ;
        ``none`` where there is none. Of a refinement, what was charged beside the other's: it
        holds for both together.
        """
        if not self.is_dp:
            return "none"
        beside = f" + that of ε={self.facts[REFINED_FROM]}" if REFINED_FROM in self.facts else ""
        if self.budget == PURE and self.currency != PURE:
            return f"{epsilon_text(self.epsilon)} (ρ={epsilon_text(self.charged)})"
        return f"{self.currency.text(self.charged)}{beside}"

    @property
    def caveat(self) -> str:
        """Why the ε that was asked does not hold for it, in one line; empty when it does."""
        reason = self.facts.get("reason", "")
        if not self.is_dp:
            return f"not differentially private: {reason}"
        if not reason:
            return ""
        composed, asked = self.facts["composed"], self.facts["epsilon"]
        return f"costs ε = {composed}, not the nominal {asked}: {reason}"

    @property
    def model(self) -> str:
        """Its model, marked where the ε that was asked does not hold for it."""
        name = self.facts["model"]
        return f"{name} (published)" if self.caveat and not self.is_k_anonymous else name

    @property
    def is_releasable(self) -> bool:
        """Whether it may leave: neither a seeded draw nor a method with another ε may."""
        return self.facts["releasable"] == "yes"

    def require_exportable(self) -> None:
        """BoundaryViolation, in one line, for a release that must never leave this project where
        its rows are sensitive: one without the ε that was asked, unless the data set file allows by
        name what it promises.
        """
        is_allowed = self.is_k_anonymous and self.facts.get(ALLOWED) == "yes"
        if not self.is_releasable or (self.caveat and not is_allowed):
            why = self.caveat or f"one drawn from {self.facts.get('noise', 'seeded')} noise"
            raise BoundaryViolation(
                f"bundle {self.key[:12]}: expected a release fit to leave, got {why}"
            )

    def to_json(self) -> str:
        """Everything but the tables, which are named with the digest of their values."""
        return json.dumps(
            {
                "format": FORMAT,
                "key": self.key,
                "facts": dict(self.facts),
                "spends": [_spend_fields(spend) for spend in self.spends],
                "quality": {name: vars(number) for name, number in self.quality.items()},
                "tables": {name: table_digest(table) for name, table in self.tables.items()},
                "transcript": self.transcript,
            },
            indent=1,
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str, tables: Tables) -> Bundle:
        """The bundle of ``to_json``'s text and its tables; Damaged if they do not belong."""
        try:
            stored = _stored(text)
            digests = {name: table_digest(table) for name, table in tables.items()}
            if stored["tables"] != digests:
                raise Damaged(f"bundle {stored['key'][:12]}: expected its own tables, got others")
            return cls(
                key=stored["key"],
                facts=stored["facts"],
                spends=tuple(_spend(fields) for fields in stored["spends"]),
                quality={name: NoisyNumber(**one) for name, one in stored["quality"].items()},
                tables=tables,
                transcript=stored["transcript"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise Damaged("bundle: expected the JSON of a stored release, got another") from None


def table_names(text: str) -> tuple[str, ...]:
    """Which tables belong to ``to_json``'s text; UnknownFormat for a bundle of another format,
    Damaged where it says nothing of the kind.
    """
    try:
        return tuple(_stored(text)["tables"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged("bundle: expected the JSON of a stored release, got another") from None


def _stored(text: str) -> dict[str, Any]:
    """The fields of a bundle of this format."""
    stored: dict[str, Any] = json.loads(text)
    require_format(stored.get("format"), of=f"bundle {str(stored.get('key'))[:12]}")
    return stored


def table_digest(table: Mapping[str, np.ndarray]) -> str:
    """Hex digest of a table's names, types and values; None in an object array is a value too."""
    digest = hashlib.sha256()
    for name in table:
        rows = sum(len(values) for values in batches_of(table, name))
        kind = next(batches_of(table, name)).dtype.kind
        digest.update(f"{name}\0{kind}\0{rows}\0".encode())
        column = batches_of(table, name)
        if kind == "O":
            values = table[name]
            there = np.array([one is not None for one in values.tolist()], dtype=np.bool_)
            present = np.array(values[there].tolist())
            digest.update(there.tobytes() + f"{present.dtype.kind}\0".encode())
            column = iter([present])
        for content in _contents(column):
            digest.update(content)
    return digest.hexdigest()


def _contents(column: Iterator[np.ndarray]) -> Iterator[bytes]:
    """The values as bytes: numbers as 64 bits, texts one behind the other; dates as days, times as
    seconds.
    """
    for at, values in enumerate(column):
        if values.dtype.kind == "M":
            yield (b"" if at else values.dtype.str[1:].encode()) + values.astype("<i8").tobytes()
        elif values.dtype.kind in "iuf":
            yield values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes()
        else:
            yield (b"\0" if at else b"") + "\0".join(values.tolist()).encode()


_EXACT = ("epsilon", "scale", "delta")
"""Fields of a spend that are exact numbers, stored as text."""


def _spend_fields(spend: Spend) -> dict[str, Any]:
    exact = {name: str(getattr(spend, name)) for name in _EXACT}
    return {**vars(spend), **exact}


def _spend(fields: dict[str, Any]) -> Spend:
    return Spend(**{**fields, **{name: Fraction(fields[name]) for name in _EXACT}})


class Key(Protocol):
    """What makes two releases the same one, so that asking again costs nothing."""

    @property
    def population(self) -> str:
        """The population it is about."""

    @property
    def snapshot(self) -> str:
        """The name of the snapshot it is of."""

    @property
    def place(self) -> tuple[str, ...]:
        """Folders below the store: data set, kind of release, model or method."""

    @property
    def digest(self) -> str:
        """Hex digest of all that decides what it holds."""


def refinement_digest(population: str, refines: str) -> str:
    """The one digest of all refinements of a release; ``refines`` is that of the release."""
    once = {"population": population, "refines": refines}
    return hashlib.sha256(json.dumps(once, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ReleaseKey:
    """Everything that decides which noisy answers a release holds. No row enters.

    declaration   digest of the measured declarations of the data set
    measuring     the model's measuring parameters, as text
    noise         noise source, with its seed if it has one
    replicate     0, and one more with every new draw that was asked for by name
    refines       digest of the key of a release that this one refines; empty where it is drawn by
                  itself

    A release is refined once: two refinements of one answer could tell more together than what
    was charged for both, as what follows from the one answer would be drawn twice. So all of them
    have the same key, which the ledger takes once; at another ε, that release is not theirs.
    """

    population: str
    dataset: str
    snapshot: str
    declaration: str
    model: str
    measuring: Mapping[str, str]
    epsilon: Fraction
    evaluation: Fraction | None
    noise: str
    replicate: int = 0
    refines: str = ""

    @property
    def place(self) -> tuple[str, ...]:
        """Folders below the store: data set and model."""
        return (self.dataset, self.model)

    @property
    def digest(self) -> str:
        """Hex digest of all fields; of a refinement, of what it refines."""
        if self.refines:
            return refinement_digest(self.population, self.refines)
        fields = dict(vars(self))
        fields["epsilon"] = epsilon_text(self.epsilon)
        fields["evaluation"] = None if self.evaluation is None else epsilon_text(self.evaluation)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def with_replicate(self, replicate: int) -> ReleaseKey:
        """The key of another draw of the same release."""
        return replace(self, replicate=replicate)

    def refining(self, digest: str) -> ReleaseKey:
        """The key of the refinement of a release that has this one; of none where it is empty."""
        return replace(self, refines=digest)


@dataclass(frozen=True)
class KAnonymousKey:
    """Everything that decides what a k-anonymous table holds. No row enters.

    asked   the question, as text: promise, method and what they are about
    """

    population: str
    dataset: str
    snapshot: str
    purpose: str
    declaration: str
    asked: Mapping[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        """Folders below the store: data set, kind and method."""
        return (self.dataset, "k_anonymous", self.asked["model"])

    @property
    def digest(self) -> str:
        """Hex digest of all fields."""
        fields = dict(vars(self))
        fields |= fields.pop("asked")
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

"""A bundle: one release as it is stored and published; and keys, which identify releases.

It is stored as JSON, and as columns of numbers or text with None for a missing value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.config.amounts import PURE, Currency, epsilon_text
from dp_pipeline.config.errors import BoundaryViolation, Damaged
from dp_pipeline.config.formats import FORMAT, require_format
from dp_pipeline.results.accountant import Spend, rho_costs
from dp_pipeline.results.clusters import Tables, batches_of
from dp_pipeline.results.measurement import NoisyNumber

EARLIER_EVALUATION = "earlier_evaluation"
"""The fact of a rebuilt bundle that holds the ε of the evaluation it left out."""
LEARNED = "learned_from"
"""The fact that holds the path in the store of the release from which this one was planned."""
TYPES = "types"
"""The fact that holds the type of each column of the source, if the source stores types."""
PRIOR = "prior"
"""The fact that names the public rows of another data set, with their digest."""
REFINES, REFINED_FROM = "refines", "refined_from"
"""The facts that hold the key and the ε of the release of the same rows that this one refines."""
K_ANONYMITY = "promise"
"""The fact of a bundle without ε that names the promise of its table: k-anonymity."""
ALLOWED = "allow_not_dp"
"""The fact that says whether its data set file allows such a release by name."""

TABLES = {
    "synthetic": "Synthetic rows, or parts of the synthetic units, in the columns of the source",
    "units": "Synthetic units, each with the number of its parts, which are in the other table",
    "centres": "Centres in the units of the data, with the noisy number of rows of each if any",
    "sizes": "Noisy number of rows of each centre",
    "synopsis": "Map: boxes with their noisy number of rows",
    "left_out": "Noisy number of rows without a place, which are in no box",
    "codes": "The synthetic rows as codes of levels and bins",
    "marginals": "Share of every level among the synthetic rows",
    "cliques": "Nodes of the model graph",
    "measured": "Tables that were measured, with their noise",
    "cells": "Noisy counts",
    "weighted": "Tables that were measured, each unit counted as 1 in all, with their noise",
    "weighted_cells": "Noisy counts of these tables, in units",
    "groups": "The group that each level was counted in",
    "dependence": "Likely distance of each scored pair from independence, in rows",
    "bits": "Bits of which the classes are made",
    "bit_levels": "Levels for which a bit is yes",
    "classes": "Published classes, with their noisy number of rows",
    "counts": "Noisy number of rows of each published class and level of the label",
    "total": "Noisy number of rows of each level of the label, in all published classes together",
    "claims": "What is guaranteed of the classes, and what is not",
    "threshold": "The numbers behind these claims",
    "released": "The k-anonymous rows",
}
"""Table of a release → what it holds."""


@dataclass(frozen=True)
class Bundle:
    """The stored result of one release: its tables, charges and facts.

    key           SHA-256 in hex of its release key
    facts         data set, model, parameters, ε, snapshot, noise, versions and more, as text
    spends        every charge, in order
    quality       private quality numbers, by metric
    tables        table name → column name → values (m,)
    transcript    digest of the stored noisy answers that this was made from
    free_spends   the charge for rows that no other charge is about; it adds nothing to the sum
    """

    key: str
    facts: Mapping[str, str]
    spends: tuple[Spend, ...]
    quality: Mapping[str, NoisyNumber]
    tables: Tables
    transcript: str
    free_spends: tuple[Spend, ...] = ()

    @property
    def spent(self) -> Fraction:
        """The sum of ``costs``; it is no guarantee of the release if ``is_dp`` is False."""
        return sum(self.costs, Fraction(0))

    @property
    def currency(self) -> Currency:
        """The currency of the population's budget."""
        delta = self.facts.get("delta")
        return Currency(None if delta is None else Fraction(delta))

    @property
    def model_currency(self) -> Currency:
        """The currency in which the charges of the model add up: pure ε, or ρ."""
        # A population that pays in pure ε has models of pure ε alone, and stores no such fact.
        return PURE if self.facts.get("currency", PURE.name) == PURE.name else self.currency

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """The cost of each charge, in the currency of the population."""
        if self.currency == PURE:
            return tuple(spend.epsilon for spend in self.spends)
        last = self.model_spend_count
        model_costs = rho_costs(self.spends[:last], currency=self.model_currency)
        return (*model_costs, *rho_costs(self.spends[last:], currency=PURE))

    @property
    def model_spend_count(self) -> int:
        """The number of charges of the model, which precede those of the evaluation."""
        unexplained = Fraction(self.facts["evaluation"]) if self.quality else Fraction(0)
        first = len(self.spends)
        while unexplained > 0 and first > 0:
            first -= 1
            unexplained -= self.spends[first].epsilon
        return first

    @property
    def charged(self) -> Fraction:
        """The amount that the ledger charged for this release, in the population's currency.

        It is ``spent`` and the price of an evaluation that a rebuilt bundle has left out."""
        return self.spent + self.currency.cost_of(self._earlier, PURE)

    @property
    def charged_in_all(self) -> Fraction:
        """``charged`` and the cost of the releases that this one refines, in the same currency."""
        if not self._coarse:
            return self.charged
        refined = self.model_currency.amount_of(self._coarse)
        return self.charged + self.currency.cost_of(refined, self.model_currency)

    @property
    def _coarse(self) -> Fraction:
        return Fraction(self.facts.get(REFINED_FROM, "0"))

    @property
    def _earlier(self) -> Fraction:
        return Fraction(self.facts.get(EARLIER_EVALUATION, "0"))

    @property
    def epsilon(self) -> Fraction:
        """The ε of this release and of those that it refines: pure, or at the population's δ."""
        if self.model_currency == PURE:
            return sum((spend.epsilon for spend in self.spends), self._earlier + self._coarse)
        return self.currency.epsilon_of(self.charged_in_all)

    @property
    def own_delta(self) -> Fraction:
        """The δ that the discovery of levels costs, besides the population's δ; else 0."""
        return Fraction(self.facts.get("own_delta", "0"))

    @property
    def kind(self) -> str:
        """The kind of guarantee: ``dp``, or ``not-dp`` if no finite ε holds."""
        return self.facts["kind"]

    @property
    def is_dp(self) -> bool:
        """Whether a finite ε holds for the release."""
        return self.kind == "dp"

    @property
    def is_k_anonymous(self) -> bool:
        """Whether the release guarantees k-anonymity of its table, and no ε."""
        return not self.is_dp and K_ANONYMITY in self.facts

    @property
    def spent_text(self) -> str:
        """The charge as text: ``1`` for ε, ``ρ=… (ε=… at δ=…)`` for ρ, both with ``+ that of ε=…``
        if it refines; ``1 (ρ=…)`` for ε in an account of ρ; ``none`` if no finite ε holds."""
        if not self.is_dp:
            return "none"
        refined = f" + that of ε={self.facts[REFINED_FROM]}" if REFINED_FROM in self.facts else ""
        if self.model_currency == PURE and self.currency != PURE:
            return f"{epsilon_text(self.epsilon)} (ρ={epsilon_text(self.charged)})"
        return f"{self.currency.text(self.charged)}{refined}"

    @property
    def spent_phrase(self) -> str:
        """``spent_text`` for a sentence: with ``ε =`` before it, unless it begins with ρ."""
        return self.spent_text if self.spent_text.startswith("ρ") else f"ε = {self.spent_text}"

    @property
    def caveat(self) -> str:
        """A phrase on why the requested ε does not hold for the release; empty if it does."""
        reason = self.facts.get("reason", "")
        if not self.is_dp:
            return f"not differentially private: {reason}"
        if not reason:
            return ""
        composed, nominal = self.facts["composed"], self.facts["epsilon"]
        return f"costs ε = {composed}, not the nominal {nominal}: {reason}"

    @property
    def model(self) -> str:
        """The model's name, with ``(published)`` unless the requested ε or k-anonymity holds."""
        name = self.facts["model"]
        return f"{name} (published)" if self.caveat and not self.is_k_anonymous else name

    @property
    def is_releasable(self) -> bool:
        """Whether the release may be published.

        It may if its noise has no seed and the requested ε holds, or if its data set file allows
        releases without ε and it is k-anonymous."""
        return self.facts["releasable"] == "yes"

    def require_exportable(self) -> None:
        """Raise BoundaryViolation for a release that must never leave this project.

        That is one with seeded noise, or without the requested ε unless the data set file allows
        its promise by name."""
        is_allowed = self.is_k_anonymous and self.facts.get(ALLOWED) == "yes"
        if not self.is_releasable or (self.caveat and not is_allowed):
            why = self.caveat or f"it was drawn from {self.facts.get('noise', 'seeded')} noise"
            raise BoundaryViolation(f"The release {self.key[:12]} must not be exported: {why}")

    def to_json(self) -> str:
        """Return the bundle as JSON text, with the digests of its tables but not their values."""
        fields = {
            **vars(self),
            "format": FORMAT,
            "facts": dict(self.facts),
            "spends": [_spend_fields(spend) for spend in self.spends],
            "free_spends": [_spend_fields(spend) for spend in self.free_spends],
            "quality": {name: vars(number) for name, number in self.quality.items()},
            "tables": {name: table_digest(table) for name, table in self.tables.items()},
        }
        return json.dumps(fields, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str, tables: Tables) -> Bundle:
        """Return the bundle of a JSON text and its tables.

        Damaged for a text of another form, and for tables whose digests differ."""
        with _damaged_unless_stored():
            stored = _stored_fields(text)
            digests = {name: table_digest(table) for name, table in tables.items()}
            for name in sorted({*stored["tables"], *digests}):
                if stored["tables"].get(name) != digests.get(name):
                    raise Damaged(
                        f"The table {name[:40]} of stored release {stored['key'][:12]} does not "
                        "have the digest that the release lists: fetch the export again"
                    )
            return cls(
                key=stored["key"],
                facts=stored["facts"],
                spends=tuple(_spend(fields) for fields in stored["spends"]),
                quality={name: NoisyNumber(**fields) for name, fields in stored["quality"].items()},
                tables=tables,
                transcript=stored["transcript"],
                free_spends=tuple(_spend(fields) for fields in stored["free_spends"]),
            )


def table_names(text: str) -> tuple[str, ...]:
    """Return the names of the tables in a bundle's JSON text; Damaged for another text."""
    with _damaged_unless_stored():
        return tuple(_stored_fields(text)["tables"])


@contextmanager
def _damaged_unless_stored() -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise Damaged(
            "The release must be JSON as this program writes it, but it is not: fetch the export "
            "again"
        ) from None


def _stored_fields(text: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(text)
    key = str(stored.get("key", ""))[:12] or "without a key"
    require_format(stored.get("format"), of=f"bundle {key}")
    return stored


def table_digest(table: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 in hex of a table's names, types and values."""
    digest = hashlib.sha256()
    for name in table:
        rows = sum(len(values) for values in batches_of(table, name))
        column = batches_of(table, name)
        kind = next(batches_of(table, name)).dtype.kind
        digest.update(f"{name}\0{kind}\0{rows}\0".encode())
        if kind == "O":
            values = table[name].tolist()
            is_present = np.array([value is not None for value in values], dtype=np.bool_)
            present = np.array([value for value in values if value is not None])
            digest.update(is_present.tobytes() + f"{present.dtype.kind}\0".encode())
            column = iter([present])
        for batch, part in enumerate(column):
            if part.dtype.kind == "M":
                unit = b"" if batch else part.dtype.str[1:].encode()
                digest.update(unit + part.astype("<i8").tobytes())
            elif part.dtype.kind in "iuf":
                digest.update(part.astype("<f8" if part.dtype.kind == "f" else "<i8").tobytes())
            else:
                digest.update((b"\0" if batch else b"") + "\0".join(part.tolist()).encode())
    return digest.hexdigest()


_EXACT = ("epsilon", "scale", "delta")
"""Fields of a spend that are exact numbers, stored as text."""


def _spend_fields(spend: Spend) -> dict[str, Any]:
    exact = {name: str(getattr(spend, name)) for name in _EXACT}
    return {**vars(spend), **exact}


def _spend(fields: dict[str, Any]) -> Spend:
    return Spend(**{**fields, **{name: Fraction(fields[name]) for name in _EXACT}})


def refinement_digest(population: str, refined_digest: str) -> str:
    """Return the digest that all refinements of the release with the digest ``refined_digest``
    share."""
    return _digest({"population": population, "refines": refined_digest})


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ReleaseKey:
    """The identity of a noisy release: the fields that determine its answers, without any row.

    declaration   digest of the measured declarations of the data set
    measuring     the model's measuring parameters, as text
    noise         noise source, with its seed if it has one
    replicate     0, and one more with every requested new draw
    refines       digest of the key of the release that it refines; empty for a first draw

    A release is refined once: two refinements of one answer could reveal more together than what
    was charged for both, as what follows from the answer would be drawn twice. So all refinements
    have the same key, which the ledger charges once, whatever their ε.
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
        """The folders below the store: data set, kind of release, model or method."""
        return (self.dataset, self.model)

    @property
    def digest(self) -> str:
        """The SHA-256 in hex of all fields; all refinements of one release have the same."""
        if self.refines:
            return refinement_digest(self.population, self.refines)
        evaluation = None if self.evaluation is None else epsilon_text(self.evaluation)
        fields = {"epsilon": epsilon_text(self.epsilon), "evaluation": evaluation}
        return _digest({**vars(self), **fields})

    def with_replicate(self, replicate: int) -> ReleaseKey:
        return replace(self, replicate=replicate)

    def refining(self, digest: str) -> ReleaseKey:
        """Return the key of a refinement of the release with this digest; of a first draw if ""."""
        return replace(self, refines=digest)


@dataclass(frozen=True)
class KAnonymousKey:
    """The identity of a k-anonymous table: the fields that determine it, without any row.

    purpose       declared purpose of the data set
    declaration   digest of the declarations that determine the table
    question      promise, method and its columns, as text
    """

    population: str
    dataset: str
    snapshot: str
    purpose: str
    declaration: str
    question: Mapping[str, str]

    @property
    def place(self) -> tuple[str, ...]:
        return (self.dataset, "k_anonymous", self.question["model"])

    @property
    def digest(self) -> str:
        fields = dict(vars(self))
        return _digest(fields | fields.pop("question"))


Key = ReleaseKey | KAnonymousKey
"""The identity of a release; a request with an equal key is replayed at no cost."""

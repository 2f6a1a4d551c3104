"""Bundle: one release as it is stored and published: tables, what was spent, where it comes from.

JSON and columns of numbers or text only: nothing in it is code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dp_pipeline.release.accountant import Spend
from dp_pipeline.release.clusters import Tables
from dp_pipeline.release.measurement import NoisyNumber
from dp_pipeline.schema.epsilon import epsilon_text
from dp_pipeline.schema.errors import BoundaryViolation, Damaged

EARLIER_EVALUATION = "earlier_evaluation"
"""The fact of a bundle made again that holds the ε of the evaluation it left out."""


@dataclass(frozen=True)
class Bundle:
    """One release.

    key             hex digest of its release key
    facts           data set, model, parameters, ε, snapshot, noise, versions …: text
    spends          every charge, in order; they add up to the release's ε
    quality         quality numbers that were bought with part of that ε
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
        """Σ of the charges; no ε of the release where ``is_dp`` is False."""
        return sum((spend.epsilon for spend in self.spends), Fraction(0))

    @property
    def charged(self) -> Fraction:
        """What the ledger was charged: with the evaluation of earlier centres, where this was made
        again from the same answers with other centres.
        """
        return self.spent + Fraction(self.facts.get(EARLIER_EVALUATION, "0"))

    @property
    def kind(self) -> str:
        """``dp``, or ``not-dp`` where no finite ε holds for it."""
        # Before there was another kind, nothing was written.
        return self.facts.get("kind", "dp")

    @property
    def is_dp(self) -> bool:
        """Whether a finite ε holds for it."""
        return self.kind == "dp"

    @property
    def spent_text(self) -> str:
        """The ε that was charged for it, exactly; ``none`` where there is none."""
        return epsilon_text(self.charged) if self.is_dp else "none"

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
        return f"{name} (published)" if self.caveat else name

    @property
    def fit_for_release(self) -> bool:
        """Whether it may leave: neither a seeded draw nor a method with another ε may."""
        return self.facts["fit_for_release"] == "yes"

    def require_exportable(self) -> None:
        """BoundaryViolation, in one line, for a release that must never leave this project."""
        if not self.fit_for_release or not self.is_dp or self.caveat:
            why = self.caveat or f"one drawn from {self.facts.get('noise', 'seeded')} noise"
            raise BoundaryViolation(
                f"bundle {self.key[:12]}: expected a release fit to leave, got {why}"
            )

    def to_json(self) -> str:
        """Everything but the tables, which are named with the digest of their values."""
        return json.dumps(
            {
                "format": 1,
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
            stored = json.loads(text)
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


def table_digest(table: Mapping[str, np.ndarray]) -> str:
    """Hex digest of a table's names, types and values."""
    digest = hashlib.sha256()
    for name, values in table.items():
        digest.update(f"{name}\0{values.dtype.kind}\0{len(values)}\0".encode())
        if values.dtype.kind in "iuf":
            digest.update(values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes())
        else:
            digest.update("\0".join(values.tolist()).encode())
    return digest.hexdigest()


def _spend_fields(spend: Spend) -> dict[str, Any]:
    fields = dict(vars(spend))
    return {**fields, "epsilon": str(spend.epsilon), "scale": str(spend.scale)}


def _spend(fields: dict[str, Any]) -> Spend:
    exact = {"epsilon": Fraction(fields["epsilon"]), "scale": Fraction(fields["scale"])}
    return Spend(**{**fields, **exact})

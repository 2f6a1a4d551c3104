"""SyntacticRelease: one k-anonymous table that a data set asks for, and what makes it the same.

The rows of a data set as k-anonymous methods read them: quasi-identifiers and label, exactly.

The k-anonymous methods that a data set file declares, checked, and what each promises.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.method import Method, sensitive_diversity
from dp_pipeline.anonymity.partition import Promise
from dp_pipeline.anonymity.rows import CodedRows, Column
from dp_pipeline.ledger import Charge
from dp_pipeline.publish.home import Home
from dp_pipeline.publish.release import BESIDE, code_version, not_dp_beside
from dp_pipeline.publish.store import BundleStore
from dp_pipeline.raw.prepare import exact_codes
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.release.bundle import ALLOWED, SYNTACTIC
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.dataset import DatasetSpec, KAnonymity
from dp_pipeline.spec.domain import Attribute
from dp_pipeline.spec.errors import DeclarationError, one_of
from dp_pipeline.spec.parameters import fact_text, texts_of


def declared_anonymity(spec: DatasetSpec) -> KAnonymity:
    """The declared k-anonymous releases; DeclarationError where there are none."""
    if spec.k_anonymity is None or spec.label is None:
        raise DeclarationError(f"{spec.name}: expected a section `k_anonymity`, got none")
    return spec.k_anonymity


def quasi_identifiers(spec: DatasetSpec) -> tuple[Column, ...]:
    """The declared quasi-identifiers, in their declared order."""
    return tuple(_column(spec.domain[name]) for name in declared_anonymity(spec).attributes)


def _column(attribute: Attribute) -> Column:
    """Bins ascend, levels have no order; missing values are a level of their own."""
    missing = attribute.missing_code if attribute.nullable else None
    return Column(attribute.name, attribute.labels(), attribute.is_numeric, missing)


def coded_rows(spec: DatasetSpec, snapshot: Snapshot) -> CodedRows:
    """Every prepared row: quasi-identifiers and label.

    NotPrepared unless the snapshot is prepared; DeclarationError without a section `k_anonymity`.
    """
    columns, label = quasi_identifiers(spec), spec.domain[str(spec.label)]
    codes = exact_codes(spec, snapshot, [*(one.name for one in columns), label.name])
    target = codes[:, -1].astype(np.int64)
    return CodedRows(columns, codes[:, :-1], target, label.labels())


def declared_method(spec: DatasetSpec, name: str) -> Method:
    """A declared method with its parameters; DeclarationError where it is not declared, does not
    exist, or has no such parameters.
    """
    methods = declared_anonymity(spec).methods
    if name not in methods:
        raise DeclarationError(f"{spec.name}: method: expected {one_of(methods, name)}")
    return build_method(name, methods[name], of=f"{spec.name}: k_anonymity")


def require_methods(spec: DatasetSpec) -> None:
    """DeclarationError for a declared method that does not exist or has no such parameters."""
    for name in spec.k_anonymity.methods if spec.k_anonymity else ():
        declared_method(spec, name)


def promise_for(declared: KAnonymity, method: str, *, k: int) -> Promise:
    """The declared promise of one method at K.

    Where no diversity is declared, kjig keeps two labels in every class of a sensitive label, and
    the others, whose papers know no such rule, keep none. A K that promises nothing promises no
    diversity either, declared or not.
    """
    if k <= 1:
        return Promise(k, 1, declared.suppress)
    usual = sensitive_diversity(METHODS[method], k=k) if declared.sensitive_label else 1
    return Promise(k, declared.diversity or usual, declared.suppress)


FOLDER = "k_anonymous"
"""Between the data set and the method, in the released store and in asset keys."""

REASON = "k-anonymity has no ε: it reads the rows as they are"


def syntactic_code() -> str:
    """The package's version and a digest of the code that chooses and measures."""
    return code_version(("anonymity", "metrics", "schema"))


@dataclass(frozen=True)
class SyntacticRelease:
    """One k-anonymous table.

    name   of the method
    k      rows that every equivalence class has at least
    run    what the ledger notes of the run: run id, asset
    """

    spec: DatasetSpec
    name: str
    k: int
    home: Home
    run: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def declared(self) -> KAnonymity:
        """The section of the data set file; DeclarationError where there is none."""
        return declared_anonymity(self.spec)

    @cached_property
    def method(self) -> Method:
        """The declared method, checked."""
        return declared_method(self.spec, self.name)

    @property
    def promise(self) -> Promise:
        """What every class of the table has to have."""
        return promise_for(self.declared, self.name, k=self.k)

    @property
    def store(self) -> BundleStore:
        """Where bundles are."""
        return BundleStore(self.home.released)

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        return f"{self.spec.name}/{FOLDER}/{self.name} at K={self.k}"

    def require_allowed(self) -> None:
        """DeclarationError for a K or a method that is not declared, and on sensitive rows for
        what the file does not allow by name or what promises nothing.
        """
        self.declared.partition(str(self.k))
        method = self.method
        if not self.spec.is_release:
            return
        if not self.spec.allow_not_dp:
            raise DeclarationError(
                f"{self.spec.name}: k_anonymity: expected `allow_not_dp: true` for k-anonymous "
                "releases of sensitive rows, got none"
            )
        if self.k < 2:
            raise DeclarationError(
                f"{self.spec.name}: {method.summary}: expected a K of at least 2 for sensitive "
                f"rows, got {self.k}"
            )

    def key(self, snapshot: Snapshot) -> str:
        """Hex digest of everything that decides what the tables hold. No row enters."""
        fields = {
            "lineage": self.spec.lineage,
            "dataset": self.spec.name,
            "snapshot": snapshot.id,
            # Of which label rows were left out is told of public rows only.
            "purpose": self.spec.purpose,
            # Which rows are valid depends on every attribute.
            "declaration": self.spec.digest,
            **self._asked,
        }
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    @property
    def _asked(self) -> dict[str, str]:
        """The question, as text: promise, method and what they are about."""
        declared = self.declared
        return {
            SYNTACTIC: "k-anonymity",
            "model": self.name,
            "parameters": fact_text(texts_of(self.method, measuring=True)),
            "k": str(self.k),
            "diversity": str(self.promise.diversity),
            "suppress": epsilon_text(declared.suppress),
            "seed": str(declared.seed),
            "attributes": " ".join(declared.attributes),
            "label": str(self.spec.label),
        }

    def folder(self, snapshot: Snapshot) -> Path:
        """Where the bundle lies: in a folder of its own release, as every bundle."""
        releases = self.store.root / self.spec.name / FOLDER / self.name
        return releases / self.key(snapshot)[:32] / "bundle"

    def charge(self, snapshot: Snapshot) -> Charge:
        """What the ledger records before anyone looks: no ε, and that there is none."""
        return Charge(
            key=self.key(snapshot),
            lineage=self.spec.lineage,
            kind="not-dp",
            nano_epsilon=0,
            what=self.what,
            facts={**self.facts(snapshot), **self.run},
            currency=self.spec.currency,
        )

    def facts(self, snapshot: Snapshot) -> dict[str, str]:
        """What is written into the ledger and the bundle: declarations and versions, no rows."""
        spec, is_allowed = self.spec, "yes" if self.spec.allow_not_dp else "no"
        beside = not_dp_beside(spec, self.home.ledger, before=self.key(snapshot))
        return {
            **self._asked,
            "lineage": spec.lineage,
            "dataset": spec.name,
            "kind": "not-dp",
            "reason": REASON,
            "snapshot": snapshot.id,
            "declaration": spec.digest,
            "unit": str(spec.protection),
            "purpose": spec.purpose,
            ALLOWED: is_allowed,
            "fit_for_release": is_allowed,
            "code": syntactic_code(),
            **({BESIDE: "; ".join(beside)} if beside else {}),
        }

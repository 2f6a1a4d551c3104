"""A k-anonymous release at a K: what makes it the same one, and how it is made.

Its methods read quasi-identifiers and label exactly, and it has no ε. It goes through the protocol
of every other release, with a charge of kind ``not-dp`` and without stored answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import Method, Recoding, sensitive_diversity
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec, KAnonymity
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError, one_of
from dp_pipeline.config.parameters import fact_text, texts_of
from dp_pipeline.ledger import Entry
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_tables import (
    AUC,
    ONE_LABEL_AUC,
    k_anonymous_tables,
    keeps_guarantee,
)
from dp_pipeline.releases.release import (
    OTHER_NON_DP,
    Drawing,
    Release,
    ReleaseSpec,
)
from dp_pipeline.results.bundle import ALLOWED, K_ANONYMITY, Bundle, KAnonymousKey, Key

if TYPE_CHECKING:
    from dp_pipeline.reporting.releases import ReportedKAnonymousRelease

CARD = "card.md"
"""The file beside a bundle that says in words what it promises."""
REASON = "k-anonymity has no ε: it reads the rows as they are"


def declared_k_anonymity(spec: DatasetSpec) -> KAnonymity:
    """Return the declared k-anonymous releases; DeclarationError where there are none."""
    if spec.k_anonymity is None or spec.label is None:
        raise DeclarationError(f"{spec.name}: expected a section `k_anonymity`, got none")
    return spec.k_anonymity


def quasi_identifiers(spec: DatasetSpec) -> tuple[Column, ...]:
    """Return the declared quasi-identifiers, in their declared order. Bins ascend, levels have no
    order, and missing values are a level of their own.
    """
    attributes = [spec.domain[name] for name in declared_k_anonymity(spec).attributes]
    return tuple(
        Column(
            attribute.name,
            attribute.labels(),
            attribute.is_numeric,
            attribute.missing_code if attribute.nullable else None,
        )
        for attribute in attributes
    )


def coded_rows(spec: DatasetSpec, snapshot: Snapshot) -> CodedRows:
    """Return every prepared row: quasi-identifiers and label.

    NotPrepared unless the snapshot is prepared; DeclarationError without a section `k_anonymity`.
    """
    # With the engine of rows behind it, which no plan needs.
    from dp_pipeline.raw.prepare import exact_codes

    columns, label = quasi_identifiers(spec), spec.domain[str(spec.label)]
    codes = exact_codes(spec, snapshot, [*(column.name for column in columns), label.name])
    return CodedRows(columns, codes[:, :-1], codes[:, -1].astype(np.int64), label.labels())


def declared_method(spec: DatasetSpec, name: str) -> Method:
    """Return a declared method with its parameters; DeclarationError where it is not declared, does
    not exist, or has no such parameters.
    """
    methods = declared_k_anonymity(spec).methods
    if name not in methods:
        raise DeclarationError(f"{spec.name}: method: expected {one_of(methods, name)}")
    return build_method(name, methods[name], of=f"{spec.name}: k_anonymity")


def require_methods(spec: DatasetSpec) -> None:
    """Raise DeclarationError for an unknown declared method, or for unknown parameters."""
    for name in declared_k_anonymity(spec).methods:
        declared_method(spec, name)


def guarantee_for(declared: KAnonymity, method: str, *, k: int) -> KAnonymityGuarantee:
    """Return the declared promise of one method at K.

    Where no diversity is declared, kjig keeps two labels in every class of a sensitive label, and
    the others, whose papers know no such rule, keep none. A K that promises nothing promises no
    diversity either, declared or not.
    """
    if k <= 1:
        return KAnonymityGuarantee(k, 1, declared.suppress)
    default = sensitive_diversity(METHODS[method], k=k) if declared.sensitive_label else 1
    return KAnonymityGuarantee(k, declared.diversity or default, declared.suppress)


@dataclass(frozen=True)
class KAnonymousRelease(Release):
    """One k-anonymous table.

    name   of the method
    k      rows that every equivalence class has at least
    run    what the ledger notes of the run: run id, asset
    """

    SYMBOL = "K"
    FOLDER = ("k_anonymous",)
    ROOMS = ("anonymity", "config", "metrics")

    spec: DatasetSpec
    name: str
    k: int
    home: Home
    run: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        """Return the declared methods; none without a section `k_anonymity`."""
        return tuple(spec.k_anonymity.methods) if spec.k_anonymity else ()

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        """Return the declared K, ascending."""
        return spec.k_anonymity.partition_keys if spec.k_anonymity else ()

    @classmethod
    def at(
        cls,
        spec: DatasetSpec,
        name: str,
        level: str,
        home: Home,
        *,
        noise: str = "",  # noqa: ARG003
        run: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a declared release; DeclarationError for a K that is not declared."""
        return cls(spec, name, declared_k_anonymity(spec).partition(level), home, run or {})

    @property
    def level(self) -> str:
        """Its K, as the key of its partition."""
        return str(self.k)

    @property
    def summary(self) -> str:
        """One line on what the method does."""
        return self.method.summary

    @property
    def what(self) -> str:
        """The words for messages and the ledger."""
        return f"{'/'.join(self.path)} at K={self.k}"

    def label_state(self, state: str) -> str:
        """Return a state labelled not-dp: this release is recorded and costs nothing."""
        return f"{'recorded' if state == 'charged' else state}, not-dp"

    @cached_property
    def declared(self) -> KAnonymity:
        """The section of the data set file; DeclarationError where there is none."""
        return declared_k_anonymity(self.spec)

    @cached_property
    def method(self) -> Method:
        """The declared method, checked."""
        return declared_method(self.spec, self.name)

    @property
    def promise(self) -> KAnonymityGuarantee:
        """The promise that every class of the table has to keep."""
        return guarantee_for(self.declared, self.name, k=self.k)

    def require_allowed(self) -> None:
        """Raise DeclarationError for a K or a method that is not declared, and on sensitive rows
        for what the file does not allow by name or what promises nothing.
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

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> KAnonymousKey:  # noqa: ARG002
        """Return its key: the same seed makes the same table, so there is no other draw."""
        return KAnonymousKey(
            population=self.spec.population,
            dataset=self.spec.name,
            snapshot=snapshot.id,
            # Only of public rows the table says which labels its suppressed rows had.
            purpose=self.spec.purpose,
            # Which rows are valid depends on every attribute.
            declaration=self.spec.digest,
            question=self._question,
        )

    @property
    def _question(self) -> dict[str, str]:
        """The promise, the method and what they are about, as text."""
        declared = self.declared
        return {
            K_ANONYMITY: "k-anonymity",
            "model": self.name,
            "parameters": fact_text(texts_of(self.method, measuring=True)),
            "k": str(self.k),
            "diversity": str(self.promise.diversity),
            "suppress": epsilon_text(declared.suppress),
            "seed": str(declared.seed),
            "attributes": " ".join(declared.attributes),
            "label": str(self.spec.label),
        }

    def facts(self, key: Key) -> dict[str, str]:
        """Return what a k-anonymous release writes into the ledger and its bundle."""
        is_allowed = "yes" if self.spec.allow_not_dp else "no"
        return {
            **super().facts(key),
            **self._question,
            "kind": "not-dp",
            "reason": REASON,
            ALLOWED: is_allowed,
            "releasable": is_allowed,
            **self.spec.discovered_fact,
            **self.spec.constraints_fact,
        }

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> KAnonymousDrawing:  # noqa: ARG002
        """Return its rows, which are read once the ledger has recorded the release."""
        # Imported late, as in ``coded_rows``.
        from dp_pipeline.raw.prepare import require_codes

        require_codes(self.spec, snapshot)
        return KAnonymousDrawing(self.spec, self.method, self.promise, self.declared.seed, snapshot)

    def rebuild(self, key: Key, settled: Entry) -> Bundle:  # noqa: ARG002
        """Damaged: no answers are stored that a lost table could be made again from."""
        raise self.store.damaged(self.store.bundle_path(key, self.postprocessing))


def reported_k_anonymous_release(
    spec: DatasetSpec, bundle: Bundle, figures: Mapping[str, float]
) -> ReportedKAnonymousRelease:
    """Return a k-anonymous release as cards and reports show it.

    figures   of its evaluation, on public rows
    """
    from dp_pipeline.reporting.releases import ReportedKAnonymousRelease

    non_dp = bundle.facts.get(OTHER_NON_DP)
    return ReportedKAnonymousRelease(
        spec=spec,
        bundle=bundle,
        summary=declared_method(spec, bundle.facts["model"]).summary,
        non_dp_releases=non_dp.split("; ") if non_dp else (),
        figures=figures,
    )


@dataclass(frozen=True)
class KAnonymousDrawing(Drawing):
    """The rows that a k-anonymous release will be made of."""

    dataset: DatasetSpec
    method: Method
    promise: KAnonymityGuarantee
    seed: int
    snapshot: Snapshot
    rows: str = ""

    def draw(
        self,
        spec: ReleaseSpec,
        stored: Sequence[Bundle],
        *,
        is_resumed: bool,  # noqa: ARG002
    ) -> Bundle:
        """Read the rows, recode them, and build the released tables; BoundaryViolation for a method
        that does not keep its promise, TooFewRows with the words for the release.
        """
        if stored:
            return stored[0]
        rows = coded_rows(self.dataset, self.snapshot)
        try:
            recoded = self.method.recode(rows, self.promise, seed=self.seed)
        except TooFewRows as error:
            raise TooFewRows(f"{spec.what}: {error}") from None
        tables = k_anonymous_tables(
            rows,
            recoded,
            self.promise,
            label=str(self.dataset.label),
            is_public=not self.dataset.is_release,
            aucs=self._aucs(rows, recoded),
        )
        bundle = Bundle(spec.key.digest, spec.facts, (), quality={}, tables=tables, transcript="")
        if not keeps_guarantee(bundle):
            raise BoundaryViolation(
                f"{spec.what}: expected a table that keeps its promise, got one that breaks it"
            )
        return bundle

    def _aucs(self, rows: CodedRows, recoded: Recoding) -> dict[str, float]:
        """Return what classifiers learn in folds of public rows, and what they would learn if one
        label a class were enough; nothing of a method that does not measure it.
        """
        if self.dataset.is_release or self.promise.diversity < 2 or recoded.auc is None:
            return {}
        one_label = replace(self.promise, diversity=1)
        other = self.method.recode(rows, one_label, seed=self.seed)
        return {AUC: recoded.auc, ONE_LABEL_AUC: other.auc or math.nan}

    def texts(self, bundle: Bundle) -> dict[str, str]:
        """Return its card."""
        from dp_pipeline.reporting.pages import card

        return {CARD: card(reported_k_anonymous_release(self.dataset, bundle, {}))}

"""A k-anonymous release of one method at one K.

Methods read quasi-identifiers and label exactly, and have no ε. The protocol is that of other
releases, with a charge of kind ``not-dp`` and without stored answers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dp_pipeline.anonymity import METHODS, build_method
from dp_pipeline.anonymity.coded_rows import CodedRows, Column, KAnonymityGuarantee, TooFewRows
from dp_pipeline.anonymity.method import Method, sensitive_diversity
from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation, DeclarationError, one_of
from dp_pipeline.config.parameters import fact_text, texts_of
from dp_pipeline.config.sections import KAnonymity
from dp_pipeline.raw.snapshot import Snapshot
from dp_pipeline.releases.home import Home
from dp_pipeline.releases.k_anonymous_tables import (
    AUC,
    ONE_LABEL_AUC,
    k_anonymous_tables,
    keeps_guarantee,
)
from dp_pipeline.releases.release import OTHER_NON_DP, Drawing, Release, ReleaseSpec
from dp_pipeline.results.bundle import ALLOWED, K_ANONYMITY, Bundle, KAnonymousKey, Key

if TYPE_CHECKING:
    from dp_pipeline.reporting.metrics import QualityRow
    from dp_pipeline.reporting.releases import ReportedKAnonymousRelease

CARD = "card.md"
"""The file beside a bundle that says in words what it promises."""
REASON = "k-anonymity has no ε: it reads the rows as they are"


def declared_k_anonymity(spec: DatasetSpec) -> KAnonymity:
    """Return the section ``k_anonymity`` of a data set; DeclarationError if it has none."""
    if spec.k_anonymity is None or spec.label is None:
        raise DeclarationError(
            f"{spec.name}: the file has no section `k_anonymity`: add it, or name another data set"
        )
    return spec.k_anonymity


def coded_rows(spec: DatasetSpec, snapshot: Snapshot) -> CodedRows:
    """Return the quasi-identifiers, in declared order, and the label of every row, as codes.

    NotPrepared unless the snapshot is prepared; DeclarationError without a section `k_anonymity`.
    """
    # With the engine of rows behind it, which no plan needs.
    from dp_pipeline.raw.prepare import exact_codes

    attributes = [spec.domain[name] for name in declared_k_anonymity(spec).attributes]
    columns = tuple(
        Column(
            attribute.name,
            attribute.labels(),
            attribute.is_numeric,
            attribute.missing_code if attribute.nullable else None,
        )
        for attribute in attributes
    )
    label = spec.domain[str(spec.label)]
    codes = exact_codes(spec, snapshot, [*(column.name for column in columns), label.name])
    return CodedRows(columns, codes[:, :-1], codes[:, -1].astype(np.int64), label.labels())


def declared_method(spec: DatasetSpec, name: str) -> Method:
    """Return a declared method; DeclarationError for an unknown name or parameter."""
    methods = declared_k_anonymity(spec).methods
    if name not in methods:
        raise DeclarationError(f"{spec.name}: the method {one_of(methods, name)}")
    return build_method(name, methods[name], of=f"{spec.name}: k_anonymity")


def guarantee_for(declared: KAnonymity, method: str, *, k: int) -> KAnonymityGuarantee:
    """Return the guarantee of a method at K, with the declared or the default diversity.

    By default kjig keeps two labels in every class if the label is sensitive; other methods keep
    one. K = 1 promises nothing, and no diversity either.
    """
    if k <= 1:
        return KAnonymityGuarantee(k, 1, declared.suppress)
    default = sensitive_diversity(METHODS[method], k=k) if declared.sensitive_label else 1
    return KAnonymityGuarantee(k, declared.diversity or default, declared.suppress)


@dataclass(frozen=True)
class KAnonymousRelease(Release):
    """A k-anonymous table of one method at one K.

    name   of the method
    k      smallest number of rows in an equivalence class
    run    facts of the run for the ledger: run id, asset
    """

    SYMBOL, LEVEL_FACT = "K", "k"
    FOLDER = ("k_anonymous",)
    ROOMS = ("anonymity", "config", "metrics")

    spec: DatasetSpec
    name: str
    k: int
    home: Home
    run: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def names(spec: DatasetSpec) -> tuple[str, ...]:
        return tuple(spec.k_anonymity.methods) if spec.k_anonymity else ()

    @staticmethod
    def levels(spec: DatasetSpec) -> tuple[str, ...]:
        return spec.k_anonymity.partition_keys if spec.k_anonymity else ()

    @property
    def level(self) -> str:
        return str(self.k)

    @property
    def summary(self) -> str:
        return self.method.summary

    @property
    def what(self) -> str:
        return f"{'/'.join(self.path)} at K={self.k}"

    def label_state(self, state: str) -> str:
        return f"{'recorded' if state == 'charged' else state}, not-dp"

    @cached_property
    def declared(self) -> KAnonymity:
        return declared_k_anonymity(self.spec)

    @cached_property
    def method(self) -> Method:
        return declared_method(self.spec, self.name)

    @property
    def promise(self) -> KAnonymityGuarantee:
        """The K and diversity of every equivalence class, and the share that may be suppressed."""
        return guarantee_for(self.declared, self.name, k=self.k)

    def require_allowed(self) -> None:
        self.declared.partition(str(self.k), of=self.spec.name)
        declared_method(self.spec, self.name)
        if not self.spec.is_release:
            return
        if not self.spec.allow_not_dp:
            raise DeclarationError(
                f"{self.spec.name}: k_anonymity: sensitive rows may be released with k-anonymity "
                "only with `allow_not_dp: true`: declare it"
            )
        if self.k < 2:
            raise DeclarationError(
                f"{self.spec.name}: k_anonymity: a table of sensitive rows needs a K of "
                f"at least 2, not {self.k}: choose another K"
            )

    def key(self, snapshot: Snapshot, *, new_draw: bool = False) -> KAnonymousKey:  # noqa: ARG002
        """Return the single key of the release, also for a new draw: the same seed makes the same
        table."""
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

    def open(self, spec: ReleaseSpec, snapshot: Snapshot) -> "KAnonymousDrawing":  # noqa: ARG002
        """Return the drawing, which reads rows only once the ledger has recorded the release."""
        # Imported late, as in ``coded_rows``.
        from dp_pipeline.raw.prepare import require_codes

        require_codes(self.spec, snapshot)
        return KAnonymousDrawing(self, snapshot)

    def rebuild(self, key: Key) -> Bundle:
        """Raise Damaged: a k-anonymous table has no stored answers to be rebuilt from."""
        raise self.store.damage_error(self.store.bundle_path(key, self.postprocessing))


def reported_k_anonymous_release(
    spec: DatasetSpec, bundle: Bundle, exact: "Sequence[QualityRow]" = ()
) -> "ReportedKAnonymousRelease":
    """Return a k-anonymous release in the form that cards and reports show.

    exact   numbers of its evaluation, on public rows
    """
    from dp_pipeline.reporting.releases import ReportedKAnonymousRelease

    non_dp = bundle.facts.get(OTHER_NON_DP)
    return ReportedKAnonymousRelease(
        spec=spec,
        bundle=bundle,
        summary=declared_method(spec, bundle.facts["model"]).summary,
        non_dp_releases=non_dp.split("; ") if non_dp else (),
        exact=exact,
    )


@dataclass(frozen=True)
class KAnonymousDrawing(Drawing):
    """A draw that recodes the rows of a snapshot into a k-anonymous table."""

    release: KAnonymousRelease
    snapshot: Snapshot
    rows: str = ""

    def draw(
        self,
        spec: ReleaseSpec,
        stored: Sequence[Bundle],
        *,
        is_resumed: bool,  # noqa: ARG002
    ) -> Bundle:
        """Return the stored bundle, or that of the recoded rows; TooFewRows if no table keeps K."""
        if stored:
            return stored[0]
        dataset, promise = self.release.spec, self.release.promise
        rows = coded_rows(dataset, self.snapshot)
        try:
            recoded = self.release.method.recode(rows, promise, seed=self.release.declared.seed)
        except TooFewRows as error:
            raise TooFewRows(f"{spec.what}: {error}") from None
        aucs: dict[str, float] = {}
        if not dataset.is_release and promise.diversity >= 2 and recoded.auc is not None:
            # Cross-validated, at the promised diversity and at 1.
            one_label = replace(promise, diversity=1)
            other = self.release.method.recode(rows, one_label, seed=self.release.declared.seed)
            aucs = {AUC: recoded.auc, ONE_LABEL_AUC: math.nan if other.auc is None else other.auc}
        tables = k_anonymous_tables(
            rows,
            recoded,
            promise,
            label=str(dataset.label),
            is_public=not dataset.is_release,
            aucs=aucs,
        )
        bundle = Bundle(spec.key.digest, spec.facts, (), quality={}, tables=tables, transcript="")
        if not keeps_guarantee(bundle):
            raise BoundaryViolation(
                f"{spec.what}: the method must give a table that is k-anonymous as declared, but "
                "it did not: nothing is released"
            )
        return bundle

    def texts(self, bundle: Bundle) -> dict[str, str]:
        from dp_pipeline.reporting.pages import card

        return {CARD: card(reported_k_anonymous_release(self.release.spec, bundle))}

"""A fit that is over, taken up again: rows drawn anew from its answers, or a fit that refines it.

A refinement takes noise away from the answers of a fit at a smaller ε, of the very same rows; the
two together cost the larger ε (``gate.mechanisms.refine``). That holds for *one* refinement: two of
them could tell more together than what was paid for both. And it needs the same rows: the noise of
an answer is the answer less the exact counts, which of other rows would be another noise.

What is known of that is a *draw*: which rows a fit was of, as a keyed fingerprint, and whether it
was refined. A fitted estimator is released, so it holds neither. A ledger knows both where a
population pays; else nobody but the process that fitted, whose copies know nothing.

What a fitted estimator's release is worth on rows that its user holds: exact, for her alone.

Without rows, what the release's own noisy answers say of it, which is as private as the release.

What a fit warns of: that its release is mostly noise, or of other rows than were declared.
"""

from __future__ import annotations

import copy
import hmac
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from dp_pipeline.estimators.charging import charged, dry_run, refined_already, require_account
from dp_pipeline.estimators.declared import DeclaredColumn
from dp_pipeline.estimators.fit import (
    RELATION,
    UNIT,
    Estimate,
    PrivateFit,
    RefinedFit,
    is_fit_for_release,
)
from dp_pipeline.estimators.frames import features_of, numeric_columns, plain_frame
from dp_pipeline.estimators.rows import PreparedRows, declared_values, prepared_rows
from dp_pipeline.gate.noise import NoiseSource, OpenDPNoise
from dp_pipeline.metrics.clustering import nicv
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import Coarse
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.publish.evaluate import Comparison
from dp_pipeline.publish.home import find_home
from dp_pipeline.publish.release import ROWS
from dp_pipeline.raw.evaluate import reference_of
from dp_pipeline.release.bundle import REFINED_FROM, REFINES, refinement_digest
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import AnswerRecord, Transcript
from dp_pipeline.reporting.noisy_answers import NoisyAnswers
from dp_pipeline.reporting.plausibility import NoisyTotal, clustering_warnings, table_warnings
from dp_pipeline.reporting.quality import ClusteringQuality, QualityReport
from dp_pipeline.spec.amounts import epsilon_text
from dp_pipeline.spec.domain import Domain, distance
from dp_pipeline.spec.encoding import FloatArray
from dp_pipeline.spec.errors import DeclarationError
from dp_pipeline.spec.parameters import texts_of


class _StoredAnswers(Transcript):
    """Answers of a fit; with the last of them the model's randomness becomes another.

    A model may draw which questions it asks, so it must begin as it began; what it draws
    after its last answer are rows.
    """

    def __init__(
        self, answered: Transcript, *, rng: np.random.Generator, then: np.random.Generator
    ) -> None:
        super().__init__()
        self._records = list(answered.records)
        self._rng, self._then = rng, then

    def recall(self, question: str, *, words: str = "") -> AnswerRecord | None:
        """The stored answer, as any transcript gives it."""
        record = super().recall(question, words=words)
        if self._next == len(self._records):
            self._rng.bit_generator.state = self._then.bit_generator.state
        return record


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """Everything of a fit that is over but the rows: private, and what was declared.

    began        randomness as it was when the fit began
    transcript   all questions and noisy answers
    draw         which rows it was of; None where it can never be refined
    is_fit       whether its noise may protect persons
    """

    fit: PrivateFit[SyntheticTable]
    began: np.random.Generator
    transcript: Transcript
    draw: Draw | None
    is_fit: bool

    def redrawn(self, rows: int, rng: np.random.Generator) -> SyntheticTable:
        """Rows drawn anew from what was released: post-processing, no row is read, nothing is
        spent. ``rng`` is the randomness of the rows.
        """
        model, began = self.fit.model, copy.deepcopy(self.began)
        assert isinstance(model, TableModel)
        answers = _StoredAnswers(self.transcript, rng=began, then=rng)
        again = replace(self.fit, model=replace(model, synthetic_rows=rows))
        return again.replayed(answers, noise=OpenDPNoise(), rng=began).released

    def refined_by(self, fit: PrivateFit[SyntheticTable], noise: object) -> PrivateFit[Any]:
        """The fit at a larger ε, of this one's answers; DeclarationError where that cannot be,
        whatever the rows are.
        """
        self._require_refinable(fit)
        mine, asked = self.fit.guarantee, fit.guarantee
        if mine.currency != asked.currency:
            raise DeclarationError("refines: expected a fit with the same delta, got another")
        if not mine.amount < asked.amount:
            raise DeclarationError(
                f"refines: expected a fit at an ε below {epsilon_text(asked.epsilon)}, got "
                f"{epsilon_text(mine.epsilon)}"
            )
        if is_fit_for_release(noise) and not self.is_fit:
            raise DeclarationError(
                "refines: expected a fit whose noise may protect persons as this one's may, got "
                "one with a seed or a source of its own"
            )
        told = self.fit.replayed(
            self.transcript.rewind(), noise=OpenDPNoise(), rng=copy.deepcopy(self.began)
        )
        coarse = Coarse(told.released, mine.amount)
        return replace(fit, refines=RefinedFit(coarse, told.answered, mine.epsilon))

    def _require_refinable(self, fit: PrivateFit[SyntheticTable]) -> None:
        for one in (fit, self.fit):
            if not one.model.refines:
                known = ", ".join(name for name in MODELS if MODELS[name].refines)
                raise DeclarationError(
                    "refines: expected a method that asks the same questions at every ε "
                    f"({known} do), got {one.method}"
                )
        learned = self.fit.earlier is not None or fit.earlier is not None
        if learned or self.fit.public is not None or fit.public is not None:
            name = "plan_from" if learned else "prior"
            raise DeclarationError(f"refines: expected fits without {name}, got one with it")
        if self.draw is None or fit.discover is not None:
            raise DeclarationError(
                "refines: expected fits of declared columns, got one whose domain is discovered"
            )
        alike = (self.fit.method, self.fit.domain, texts_of(self.fit.model, measuring=True))
        if alike != (fit.method, fit.domain, texts_of(fit.model, measuring=True)):
            raise DeclarationError(
                "refines: expected a fit with the same domain, constraints, method and "
                "method_params, got one with others"
            )


def finished_fit(kind: type, refines: object) -> FinishedFit:
    """What a fit of an estimator is over that is to be refined; DeclarationError for anything else
    than a fitted one of its ``kind``.
    """
    found = getattr(refines, "_over", None)
    if not isinstance(refines, kind) or not isinstance(found, FinishedFit):
        raise DeclarationError(
            f"refines: expected a fitted {kind.__name__}, got "
            f"{'one without a fit' if isinstance(refines, kind) else 'another object'}"
        )
    return found


class DrawHere:
    """A draw that nobody but this process knows of: no ledger was told.

    Pickles, deep copies and forked processes know nothing: what is refined in one of them could be
    refined in another one too.
    """

    def __init__(self, rows: str = "") -> None:
        self._rows, self._process, self._once = rows, os.getpid(), threading.Lock()

    def __reduce__(self) -> tuple[type[DrawHere], tuple[()]]:
        return DrawHere, ()

    def require_same_rows(self, rows: str) -> None:
        """DeclarationError for other rows, and in a process that does not know which they were."""
        if not self._rows or self._process != os.getpid():
            raise DeclarationError(
                "refines: expected the very object that was fitted in this process, got a copy: "
                "nobody knows whether another one was refined; only with `population` a ledger does"
            )
        _require_equal(self._rows, rows)

    def take(self) -> None:
        """Refine it, once; DeclarationError for the second time, in whatever thread."""
        if not self._once.acquire(blocking=False):
            raise refined_already()


@dataclass(frozen=True)
class DrawInLedger:
    """A draw that a population has paid for, under a key of its ledger."""

    population: str
    key: str

    def require_same_rows(self, rows: str) -> None:
        """DeclarationError for other rows, and in another home.

        Whether it was refined is asked where the refinement is charged, once: by who reserves its
        key (``charging.charged``).
        """
        ledger = find_home().ledger
        past = ledger.history(self.key)
        if not past:
            raise DeclarationError(
                f"refines: expected a fit that the ledger in {ledger.folder} knows, got another"
            )
        _require_equal(past[0].facts.get(ROWS, ""), rows)


Draw = DrawHere | DrawInLedger

_SECRET = uuid4().bytes
"""Of this process, for fingerprints that stay in it."""


def _require_equal(known: str, rows: str) -> None:
    """Said in the same words whatever the rows are; whoever fits holds them."""
    if not hmac.compare_digest(known, rows):
        raise DeclarationError(
            "X: expected the very rows of the fit that is refined, prepared alike, got others"
        )


def drawn(
    fit: PrivateFit[SyntheticTable],
    run: Callable[[], Estimate[SyntheticTable]],
    rows: PreparedRows | None,
    *,
    noise: NoiseSource,
    population: str | None,
    refines: Draw | None,
) -> tuple[Estimate[SyntheticTable], Draw | None]:
    """Run a fit, which its population pays for if there is one, and what is known of its rows.

    rows      None where the domain is discovered first: such a fit is never refined, as little as
              one that learns from elsewhere
    refines   the draw that is refined; None: it draws by itself

    DeclarationError for a refinement of other rows, a second one, and one that another population
    pays for than the first fit; nothing was drawn or charged then.
    """
    learns = fit.earlier is not None or fit.public is not None
    if learns or not fit.model.refines:
        # To sort many rows for a fingerprint that nobody will ask for takes long.
        rows = None
    if population is None:
        draw = None if rows is None else DrawHere(rows.fingerprint(_SECRET))
        return _drawn_here(fit, run, draw, refines), draw
    ledger, account = require_account(population, noise)
    facts = {} if rows is None else {ROWS: rows.fingerprint(ledger.key(account.population))}
    key = uuid4().hex
    if refines is not None:
        if not isinstance(refines, DrawInLedger) or refines.population != population:
            raise _paid_otherwise(population)
        refines.require_same_rows(facts[ROWS])
        key = refinement_digest(population, refines.key)
        assert fit.refines is not None
        facts |= {REFINES: refines.key, REFINED_FROM: epsilon_text(fit.refines.epsilon)}
    fitted = charged(fit, run, population=population, noise=noise, key=key, facts=facts)
    return fitted, None if rows is None else DrawInLedger(population, key)


def _drawn_here(
    fit: PrivateFit[SyntheticTable],
    run: Callable[[], Estimate[SyntheticTable]],
    draw: DrawHere | None,
    refines: Draw | None,
) -> Estimate[SyntheticTable]:
    if refines is None:
        return run()
    if draw is None or not isinstance(refines, DrawHere):
        raise _paid_otherwise(None)
    refines.require_same_rows(draw._rows)  # noqa: SLF001
    # What cannot be drawn must not use up the one refinement.
    dry_run(fit)
    refines.take()
    return run()


def _paid_otherwise(population: str | None) -> DeclarationError:
    payer = "nobody" if population is None else f"population {population}"
    return DeclarationError(
        f"refines: expected a fit that {payer} paid for, as for this one, got another"
    )


def table_report(
    table: SyntheticTable,
    columns: tuple[DeclaredColumn, ...],
    domain: Domain,
    *,
    real: Any,
    label: str | None,
) -> QualityReport:
    """Of the rows that were drawn when it was fitted.

    real   a frame or array as ``fit`` takes it, or None

    DeclarationError for a table without a declared column, for a label that classifiers cannot
    tell, and for a label without real rows.
    """
    codes = dict(zip(table.attributes, np.ascontiguousarray(table.codes.T), strict=True))
    answers = NoisyAnswers.of_table(table)
    released = QualityReport(
        rows=len(table.codes),
        measured=answers.compared(codes, domain),
        unmeasured=answers.unmeasured(codes),
    )
    if real is None:
        if label is not None:
            raise DeclarationError("label: expected none without real rows, got one")
        return released
    # Declared levels keep a cache of the texts that they have met: these columns are pickled.
    known = copy.deepcopy(columns)
    values = declared_values(features_of(real, typed=False), known)
    rows = prepared_rows(values, known, refuse=False, constraints=domain.constraints)
    exact = Comparison(domain, rows.codes, codes).report(label=label)
    return replace(
        exact,
        measured=released.measured,
        unmeasured=released.unmeasured,
        left_out=len(values[0]) - rows.number,
    )


def clustering_report(centres: FloatArray, bounds: FloatArray, real: Any) -> ClusteringQuality:
    """Of released centres; rows as a fit has them: clipped to the box, and none with NaN.

    DeclarationError for another number of columns, and for no row.
    """
    columns = numeric_columns(plain_frame(real))
    if len(columns) != len(bounds):
        raise DeclarationError(f"X: expected {len(bounds)} columns, got {len(columns)}")
    points = np.stack([column.astype(np.float64) for column in columns], axis=1)
    points = np.clip(points[~np.isnan(points).any(axis=1)], bounds[:, 0], bounds[:, 1])
    if not len(points):
        raise DeclarationError("X: expected a row without a missing number, got none")
    floor = nicv(points, reference_of(points, len(centres)))
    return ClusteringQuality(len(points), nicv(points, centres), floor)


class WeakSignal(UserWarning):
    """A release that says by its own noisy counts that it is mostly noise, or of few rows."""


def clustering_doubts(
    fitted: Estimate[Clusters], fit: PrivateFit[Clusters], *, nominal_rows: int | None
) -> tuple[str, ...]:
    """One sentence each, from noisy counts and declarations alone; none where all looks well."""
    tables, columns = fitted.released.tables(), fitted.released.columns
    return clustering_warnings(
        tables,
        [fit.domain[name] for name in columns],
        NoisyTotal.of_tables(tables, fitted.spends, distance=distance(UNIT, RELATION)),
        epsilon=fit.guarantee.epsilon,
        nominal_rows=nominal_rows,
    )


def table_doubts(
    fitted: Estimate[SyntheticTable], fit: PrivateFit[SyntheticTable], *, nominal_rows: int | None
) -> tuple[str, ...]:
    """The same of a synthetic table."""
    table = fitted.released
    shares = {name: table.probabilities((name,)) for name in table.attributes}
    total = NoisyTotal.of_marginals(table.measured)
    return table_warnings(shares, fit.domain, total, nominal_rows=nominal_rows)


def warn_of(estimator: str, doubts: Sequence[str]) -> None:
    """One WeakSignal a doubt, at the line that called ``fit``."""
    for doubt in doubts:
        warnings.warn(f"{estimator}: {doubt}", WeakSignal, stacklevel=3)

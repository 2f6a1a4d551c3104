"""A finished fit: rows are sampled anew from its answers, or a fit at a larger ε refines it.

A refinement takes noise away from the answers of a fit at a smaller ε; the two together cost the
larger ε (``gate.mechanisms.refine``). That holds for *one* refinement: two could reveal more
together than was paid for both. It also needs the same rows: the noise of an answer is the answer
less the exact counts, which other rows would change.

So a keyed fingerprint of a fit's rows, and whether it was refined, must be known. A fitted
estimator is released, so it holds neither. Where a population pays, the ledger does; else only the
process that fitted, whose copies are refused.
"""

from __future__ import annotations

import copy
import hmac
import os
import threading
from dataclasses import dataclass, replace
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from dp_pipeline.config.amounts import epsilon_text
from dp_pipeline.config.errors import DeclarationError
from dp_pipeline.config.parameters import texts_of
from dp_pipeline.estimators.fit import PrivateFit
from dp_pipeline.estimators.parameters import is_fit_for_release
from dp_pipeline.estimators.population_charge import (
    Run,
    charge_of,
    refined_already,
    require_account,
    run_charged,
)
from dp_pipeline.estimators.rows import PreparedRows
from dp_pipeline.gate.noise import NoiseSource, OpenDPNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import CoarseRelease, FitResult
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.releases.home import find_home
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.bundle import REFINED_FROM, REFINES, refinement_digest
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import AnswerRecord, Transcript


class _StoredAnswers(Transcript):
    """The stored answers of a fit, with another randomness for the model after the last of them.

    A model may draw its questions, so it must begin with the same randomness. After the last answer
    it draws rows.
    """

    def __init__(
        self, stored: Transcript, *, rng: np.random.Generator, row_rng: np.random.Generator
    ) -> None:
        super().__init__()
        self._records = list(stored.records)
        self._rng, self._row_rng = rng, row_rng

    def recall(self, question: str, *, words: str = "") -> AnswerRecord | None:
        """Return the stored answer, as any transcript does."""
        record = super().recall(question, words=words)
        if self._next == len(self._records):
            self._rng.bit_generator.state = self._row_rng.bit_generator.state
        return record


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A finished fit without its rows: its private results, and its declaration.

    first_rng      post-processing randomness as it was when the fit began
    transcript     all questions and noisy answers
    is_releasable  whether its noise may protect persons
    population     the population that paid for it, or None
    ledger_key     key of its charge; empty where nobody paid
    """

    fit: PrivateFit
    result: FitResult
    first_rng: np.random.Generator
    transcript: Transcript
    is_releasable: bool
    population: str | None = None
    ledger_key: str = ""

    def sample_again(self, rows: int, rng: np.random.Generator) -> SyntheticTable:
        """Return new rows from the stored answers, without reading rows and at no ε.

        rng   randomness of the rows
        """
        model, first_rng = self.fit.model, copy.deepcopy(self.first_rng)
        assert isinstance(model, TableModel)
        answers = _StoredAnswers(self.transcript, rng=first_rng, row_rng=rng)
        fit = replace(self.fit, model=replace(model, synthetic_rows=rows))
        result, _ = fit.run(None, noise=OpenDPNoise(), rng=first_rng, transcript=answers)
        assert isinstance(result.released, SyntheticTable)
        return result.released

    def prepare_refinement(self, fit: PrivateFit, noise: NoiseSource) -> PrivateFit:
        """Return a fit at a larger ε with this one's answers to refine.

        Raises DeclarationError where the two do not fit together, whatever the rows are.
        """
        self._require_same_questions(fit)
        coarse, fine = self.fit.guarantee, fit.guarantee
        if coarse.currency != fine.currency:
            raise DeclarationError(
                "refines: expected a fit with the same delta, got one with another"
            )
        if not coarse.amount < fine.amount:
            raise DeclarationError(
                f"refines: expected a fit at an ε below {epsilon_text(fine.epsilon)}, got "
                f"{epsilon_text(coarse.epsilon)}"
            )
        if is_fit_for_release(noise) and not self.is_releasable:
            raise DeclarationError(
                "refines: expected a fit whose noise may protect persons as this one's may, got "
                "one with a seed or a source of its own"
            )
        rng, answers = copy.deepcopy(self.first_rng), self.transcript.rewind()
        _, measurements = self.fit.run(None, noise=OpenDPNoise(), rng=rng, transcript=answers)
        return replace(fit, refines=CoarseRelease(self.result.released, coarse, measurements))

    def _require_same_questions(self, fit: PrivateFit) -> None:
        for either in (fit, self.fit):
            if not either.model.refines:
                refinable = ", ".join(name for name in MODELS if MODELS[name].refines)
                raise DeclarationError(
                    "refines: expected a method that asks the same questions at every ε "
                    f"({refinable} do), got {either.method}"
                )
            if either.earlier is not None or either.public is not None:
                name = "prior" if either.earlier is None else "plan_from"
                raise DeclarationError(f"refines: expected fits without {name}, got one with it")
        if not self.fit.is_refinable or fit.spec.discover is not None:
            raise DeclarationError(
                "refines: expected fits of declared columns, got one whose domain is discovered"
            )
        coarse, fine = (
            (either.method, either.spec.domain, texts_of(either.model, measuring=True))
            for either in (self.fit, fit)
        )
        if coarse != fine:
            raise DeclarationError(
                "refines: expected a fit with the same domain, constraints, method and "
                "method_params, got one with others"
            )


_FINGERPRINTS: WeakKeyDictionary[FinishedFit, tuple[str, threading.Lock]] = WeakKeyDictionary()
"""Fits that nobody paid for → fingerprints of their rows, and locks that one refinement takes.

Pickles, deep copies and forked processes are not there: what is refined in one of them could be
refined in another one too.
"""
os.register_at_fork(after_in_child=_FINGERPRINTS.clear)

_SECRET = uuid4().bytes
"""The key of fingerprints, which stay in this process."""


def row_secret(population: str | None) -> bytes:
    """Return the key that chooses the rows of a person: that of the population where one pays, so
    that a refinement in another process has the same rows.
    """
    ledger = find_home().ledger if isinstance(population, str) else None
    has_account = ledger is not None and ledger.account(str(population)) is not None
    return ledger.key(str(population)) if ledger is not None and has_account else _SECRET


def run_fit(
    fit: PrivateFit,
    run: Run,
    rows: PreparedRows | None,
    *,
    rng: np.random.Generator,
    noise: NoiseSource,
    population: str | None,
    refined: FinishedFit | None,
) -> FinishedFit:
    """Run a fit, which its population pays for if there is one.

    rows      None where the fit can never be refined: sorting many rows for their fingerprint
              takes long
    rng       randomness as it is when the fit begins
    refined   the fit that is refined, or None

    Raises DeclarationError, before anything is drawn or charged, for a population without a fitting
    account, and for a refinement of other rows, a second one, or one paid by another population.
    """
    transcript, is_releasable = Transcript(), is_fit_for_release(noise)
    if refined is not None and refined.population != population:
        payer = "nobody" if population is None else f"population {population}"
        raise DeclarationError(
            f"refines: expected a fit that {payer} paid for, as for this one, got another"
        )
    if population is None:
        fingerprint = "" if rows is None else rows.fingerprint(_SECRET)
        if refined is not None:
            _claim_refinement(fit, refined, fingerprint)
        finished = FinishedFit(fit, run(transcript), rng, transcript, is_releasable)
        if rows is not None:
            _FINGERPRINTS[finished] = fingerprint, threading.Lock()
        return finished
    ledger, account = require_account(fit, population, noise)
    facts = {} if rows is None else {ROWS: rows.fingerprint(ledger.key(account.population))}
    key = uuid4().hex
    if refined is not None and fit.refines is not None:
        _require_stored_rows(refined.ledger_key, facts[ROWS], ledger)
        # Reserving this key decides whether the fit was refined before.
        key = refinement_digest(population, refined.ledger_key)
        facts |= {
            REFINES: refined.ledger_key,
            REFINED_FROM: epsilon_text(fit.refines.epsilon),
        }
    charge = charge_of(fit, account, noise, key=key, facts=facts)
    result = run_charged(fit, run, transcript, ledger, charge)
    return FinishedFit(fit, result, rng, transcript, is_releasable, population, key)


def _require_stored_rows(key: str, fingerprint: str, ledger: Ledger) -> None:
    entries = ledger.history(key)
    if not entries:
        raise DeclarationError(
            f"refines: expected a fit that the ledger in {ledger.folder} knows, got another"
        )
    _require_equal(entries[0].facts.get(ROWS, ""), fingerprint)


def _claim_refinement(fit: PrivateFit, refined: FinishedFit, fingerprint: str) -> None:
    """Reserve the one refinement of a fit that nobody paid for, for one thread."""
    if refined not in _FINGERPRINTS:
        raise DeclarationError(
            "refines: expected the very object that was fitted in this process, got a copy: "
            "nobody knows whether another one was refined; only with `population` a ledger does"
        )
    stored_fingerprint, refinement_lock = _FINGERPRINTS[refined]
    _require_equal(stored_fingerprint, fingerprint)
    # What cannot be drawn must not use up the one refinement.
    fit.run_without_rows()
    if not refinement_lock.acquire(blocking=False):
        raise refined_already()


def _require_equal(stored_fingerprint: str, fingerprint: str) -> None:
    """Raise DeclarationError for other rows, in the same words whatever the rows are."""
    if not hmac.compare_digest(stored_fingerprint, fingerprint):
        raise DeclarationError(
            "X: expected the very rows of the fit that is refined, prepared alike, got others"
        )

"""A fit that is over, taken up again: rows drawn anew from its answers, or a fit that refines it.

A refinement takes noise away from the answers of a fit at a smaller ε, of the very same rows; the
two together cost the larger ε (``gate.mechanisms.refine``). That holds for *one* refinement: two of
them could tell more together than what was paid for both. And it needs the same rows: the noise of
an answer is the answer less the exact counts, which of other rows would be another noise.

What is known of that is a *draw*: which rows a fit was of, as a keyed fingerprint, and whether it
was refined. A fitted estimator is released, so it holds neither. A ledger knows both where a
population pays; else nobody but the process that fitted, whose copies know nothing.
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
from dp_pipeline.estimators.fit import (
    PrivateFit,
    RefinedFit,
    Run,
    charge_of,
    dry_run,
    refined_already,
    require_account,
    run_charged,
)
from dp_pipeline.estimators.parameters import is_fit_for_release
from dp_pipeline.estimators.rows import PreparedRows
from dp_pipeline.gate.noise import NoiseSource, OpenDPNoise
from dp_pipeline.ledger import Ledger
from dp_pipeline.models import MODELS
from dp_pipeline.models.base import CoarseRelease, FitResult
from dp_pipeline.models.tables.base import TableModel
from dp_pipeline.releases.release import ROWS
from dp_pipeline.results.bundle import REFINED_FROM, REFINES, refinement_digest
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import AnswerRecord, Transcript


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

    fitted       what it gave
    began        randomness as it was when the fit began
    transcript   all questions and noisy answers
    draw         what is known of its rows; None where it can never be refined
    is_fit       whether its noise may protect persons
    """

    fit: PrivateFit
    fitted: FitResult
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
        fitted, _ = again.run(None, noise=OpenDPNoise(), rng=began, transcript=answers)
        assert isinstance(fitted.released, SyntheticTable)
        return fitted.released

    def refined_by(self, fit: PrivateFit, noise: object) -> PrivateFit:
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
        answers, rng = self.transcript.rewind(), copy.deepcopy(self.began)
        _, answered = self.fit.run(None, noise=OpenDPNoise(), rng=rng, transcript=answers)
        coarse = CoarseRelease(self.fitted.released, mine.amount)
        return replace(fit, refines=RefinedFit(coarse, answered, mine.epsilon))

    def _require_refinable(self, fit: PrivateFit) -> None:
        for one in (fit, self.fit):
            if not one.model.refines:
                known = ", ".join(name for name in MODELS if MODELS[name].refines)
                raise DeclarationError(
                    "refines: expected a method that asks the same questions at every ε "
                    f"({known} do), got {one.method}"
                )
            if one.earlier is not None or one.public is not None:
                name = "prior" if one.earlier is None else "plan_from"
                raise DeclarationError(f"refines: expected fits without {name}, got one with it")
        if self.draw is None or fit.spec.discover is not None:
            raise DeclarationError(
                "refines: expected fits of declared columns, got one whose domain is discovered"
            )
        mine, asked = (
            (one.method, one.spec.domain, texts_of(one.model, measuring=True))
            for one in (self.fit, fit)
        )
        if mine != asked:
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


@dataclass(frozen=True, eq=False)
class Draw:
    """A draw that one other fit may refine.

    population   who has paid for it; None: nobody, so that this process alone knows of it
    key          that of the ledger; empty where nobody has paid
    """

    population: str | None = None
    key: str = ""


_HERE: WeakKeyDictionary[Draw, tuple[str, threading.Lock]] = WeakKeyDictionary()
"""Draws that nobody has paid for → fingerprints of their rows, and whether they were refined.

Pickles, deep copies and forked processes are not there: what is refined in one of them could be
refined in another one too.
"""
os.register_at_fork(after_in_child=_HERE.clear)

_SECRET = uuid4().bytes
"""Of this process, for fingerprints that stay in it."""


def drawn(
    fit: PrivateFit,
    run: Run,
    rows: PreparedRows | None,
    *,
    noise: NoiseSource,
    population: str | None,
    refines: FinishedFit | None,
) -> tuple[FitResult, Transcript, Draw | None]:
    """Run a fit, which its population pays for if there is one, and what is known of its rows.

    rows      None where the fit can never be refined: to sort many for a fingerprint that nobody
              will ask for takes long
    refines   the fit that is refined; None: it draws by itself

    Raises DeclarationError for a population without an account, one with another unit, relation
    or δ, and a seed where the account is for releases; for a refinement of other rows, a second
    one, and one that another population pays for than the first fit. Nothing was drawn or charged
    then.
    """
    transcript = Transcript()
    before = None if refines is None else refines.draw
    if before is not None and before.population != population:
        payer = "nobody" if population is None else f"population {population}"
        raise DeclarationError(
            f"refines: expected a fit that {payer} paid for, as for this one, got another"
        )
    if population is None:
        here = None if rows is None else Draw()
        if here is not None and rows is not None:
            _HERE[here] = rows.fingerprint(_SECRET), threading.Lock()
            if before is not None:
                _take_here(fit, before, _HERE[here][0])
        return run(transcript), transcript, here
    ledger, account = require_account(fit, population, noise)
    facts = {} if rows is None else {ROWS: rows.fingerprint(ledger.key(account.population))}
    key = uuid4().hex
    if before is not None and fit.refines is not None:
        # Whether it was refined is asked once, by who reserves the key of the refinement.
        _require_known(before, facts[ROWS], ledger)
        key = refinement_digest(population, before.key)
        facts |= {REFINES: before.key, REFINED_FROM: epsilon_text(fit.refines.epsilon)}
    charge = charge_of(fit, account, noise, key=key, facts=facts)
    fitted = run_charged(fit, run, transcript, ledger, charge)
    return fitted, transcript, None if rows is None else Draw(population, key)


def _require_known(draw: Draw, rows: str, ledger: Ledger) -> None:
    past = ledger.history(draw.key)
    if not past:
        raise DeclarationError(
            f"refines: expected a fit that the ledger in {ledger.folder} knows, got another"
        )
    _require_equal(past[0].facts.get(ROWS, ""), rows)


def _take_here(fit: PrivateFit, draw: Draw, rows: str) -> None:
    """Refine a draw that nobody has paid for, once, in whatever thread."""
    if draw not in _HERE:
        raise DeclarationError(
            "refines: expected the very object that was fitted in this process, got a copy: "
            "nobody knows whether another one was refined; only with `population` a ledger does"
        )
    known, once = _HERE[draw]
    _require_equal(known, rows)
    # What cannot be drawn must not use up the one refinement.
    dry_run(fit)
    if not once.acquire(blocking=False):
        raise refined_already()


def _require_equal(known: str, rows: str) -> None:
    """Said in the same words whatever the rows are; whoever fits holds them."""
    if not hmac.compare_digest(known, rows):
        raise DeclarationError(
            "X: expected the very rows of the fit that is refined, prepared alike, got others"
        )

"""What one private fit is: a declaration, a model, a promise; run once over rows, or again over its
stored answers. Nothing here sees a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import Answered, Curator
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import Coarse, Model, PrivacyGuarantee, fit
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.clusters import Clusters, Tables
from dp_pipeline.release.synthetic_table import SyntheticTable
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.errors import BoundaryViolation

ReleaseType = TypeVar("ReleaseType", Clusters, SyntheticTable)


@dataclass(frozen=True)
class Estimate(Generic[ReleaseType]):
    """What a fit releases.

    spends       every look at the rows; they add up to what the fit claims
    transcript   all questions and noisy answers
    answered     the marginals among them, as they may be refined
    """

    released: ReleaseType
    spends: tuple[Spend, ...]
    transcript: Transcript
    answered: Answered


@dataclass(frozen=True, eq=False)
class RefinedFit:
    """What a fit that refines an earlier one has of it.

    coarse     its release, and what was spent on that
    answered   its marginals, and what was paid for each
    epsilon    what it promised
    """

    coarse: Coarse
    answered: Answered
    epsilon: Fraction


@dataclass(frozen=True)
class PrivateFit(Generic[ReleaseType]):
    """Everything of one fit but the rows: public.

    spec        the declaration, under the name of the estimator
    method      name of the model
    releases    what the model gives
    guarantee   the ε that was asked of the model, and what it is accounted in
    earlier     the tables of the fit that it plans from, or None
    public      rows of others that it uses, or None
    refines     the fit whose answers it refines, or None
    """

    spec: DatasetSpec
    method: str
    releases: type[ReleaseType]
    model: Model
    guarantee: PrivacyGuarantee
    earlier: Tables | None = None
    public: PublicTable | None = None
    refines: RefinedFit | None = None

    @property
    def amount(self) -> Fraction:
        """What it spends, in the currency of its guarantee: of a refinement, what it adds."""
        paid = Fraction(0) if self.refines is None else self.refines.coarse.amount
        return self.guarantee.amount - paid

    @property
    def paid(self) -> Fraction:
        """The ε that it adds to what was spent on its rows: with what its domain is discovered
        for, without what a fit that it refines has paid.
        """
        found = self.spec.discover.epsilon if self.spec.discover else Fraction(0)
        before = Fraction(0) if self.refines is None else self.refines.epsilon
        return self.guarantee.epsilon + found - before

    def run(
        self,
        counter: Counter | None,
        *,
        noise: NoiseSource,
        rng: np.random.Generator,
        transcript: Transcript | None = None,
    ) -> Estimate[ReleaseType]:
        """Ask through the gate; spends exactly ``amount``, or raises. ``rng`` is for
        post-processing.

        counter      None: the same fit over the answers of a transcript, at no cost and without
                     noise
        """
        transcript = Transcript() if transcript is None else transcript
        # A curator writes into them what it answers.
        answered = {} if self.refines is None else dict(self.refines.answered)

        def ask(accountant: Accountant) -> Curator:
            return Curator(
                counter,
                domain=self.spec.domain,
                distance=self.spec.distance,
                accountant=accountant,
                transcript=transcript,
                noise=noise,
                answered=answered,
            )

        fitted = fit(
            self.model,
            self.guarantee,
            ask,
            epsilon=self.guarantee.epsilon,
            rng=rng,
            earlier=self.earlier,
            public=self.public,
            coarse=None if self.refines is None else self.refines.coarse,
        )
        fitted.require_guaranteed(self.guarantee, what=self.method)
        if not isinstance(fitted.released, self.releases):
            raise BoundaryViolation(
                f"{self.method}: expected {self.releases.__name__}, got another release"
            )
        return Estimate(fitted.released, fitted.spends, transcript, answered)

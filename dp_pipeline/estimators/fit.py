"""One private fit without its rows: it runs once over rows, or again over stored answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_pipeline.config.dataset import DatasetSpec
from dp_pipeline.config.errors import BoundaryViolation
from dp_pipeline.gate.counter import Counter
from dp_pipeline.gate.curator import PaidMarginals
from dp_pipeline.gate.noise import NoiseSource, SeededNoise
from dp_pipeline.inference.earlier import PublicTable
from dp_pipeline.models.base import (
    CoarseRelease,
    FitResult,
    Model,
    PrivacyGuarantee,
    curators_of,
    fit,
)
from dp_pipeline.raw.counters.fold import EmptyCounter
from dp_pipeline.results.clusters import Clusters, Tables
from dp_pipeline.results.synthetic_table import SyntheticTable
from dp_pipeline.results.transcript import Transcript


@dataclass(frozen=True)
class PrivateFit:
    """The public parts of one fit.

    spec        the declaration, under the name of the estimator
    method      name of the model
    releases    type of the model's release
    guarantee   the requested ε, and the currency that it is accounted in
    earlier     the tables of the fit that it plans from, or None
    public      rows of others that it uses, or None
    refines     the fit whose answers it refines, or None
    """

    spec: DatasetSpec
    method: str
    releases: type[Clusters | SyntheticTable]
    model: Model
    guarantee: PrivacyGuarantee
    earlier: Tables | None = None
    public: PublicTable | None = None
    refines: CoarseRelease | None = None

    @property
    def amount(self) -> Fraction:
        """The amount that the fit spends in its currency; of a refinement, the added amount."""
        return self.guarantee.amount - (self.refines.guarantee.amount if self.refines else 0)

    @property
    def added_epsilon(self) -> Fraction:
        """The ε that the fit adds to what was spent on its rows, its discovery included."""
        discovery = self.spec.discover.epsilon if self.spec.discover else Fraction(0)
        return self.guarantee.epsilon + discovery - (self.refines.epsilon if self.refines else 0)

    @property
    def is_refinable(self) -> bool:
        """Whether a fit at a larger ε may ever refine it."""
        has_context = self.earlier is not None or self.public is not None
        return self.model.refines and not has_context and self.spec.discover is None

    def run(
        self,
        counter: Counter | None,
        *,
        noise: NoiseSource,
        rng: np.random.Generator,
        transcript: Transcript,
    ) -> tuple[FitResult, PaidMarginals]:
        """Run the model through the gate; return its result, and the marginals that may be refined.

        counter      None repeats the fit over the answers of the transcript, without cost or noise
        rng          for post-processing only

        It spends exactly ``amount``, or raises.
        """
        # The curator adds its own answers to these.
        measurements = dict(self.refines.paid) if self.refines else {}
        result = fit(
            self.model,
            self.guarantee,
            curators_of(self.spec, counter, transcript, noise, measurements),
            epsilon=self.guarantee.epsilon,
            rng=rng,
            earlier=self.earlier,
            public=self.public,
            coarse=self.refines,
        )
        result.require_guaranteed(self.guarantee, what=self.method)
        if not isinstance(result.released, self.releases):
            raise BoundaryViolation(
                f"{self.method}: expected {self.releases.__name__}, got another release"
            )
        return result, measurements

    def run_without_rows(self) -> FitResult:
        """Fit an empty table with a seed: what cannot be drawn must not be charged."""
        widest_fit = replace(self, spec=self.spec.widest)
        counter, rng = EmptyCounter(widest_fit.spec.domain), np.random.default_rng(0)
        return widest_fit.run(counter, noise=SeededNoise(0), rng=rng, transcript=Transcript())[0]

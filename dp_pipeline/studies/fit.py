"""Fit: one model on a curator in memory, timed, with the randomness of its cell."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import SeededNoise
from dp_pipeline.models.base import Claim, Model, Released
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.errors import BoundaryViolation
from dp_pipeline.schema.spec import DatasetSpec
from dp_pipeline.studies.seeds import seed_of


@dataclass(frozen=True)
class Fit:
    """One fit: what was released, wall-clock seconds, and whether it was ``dp`` or ``not-dp``."""

    released: Released
    seconds: float
    kind: str

    @classmethod
    def of(
        cls,
        model: Model,
        counter: Counter,
        spec: DatasetSpec,
        *,
        epsilon: Fraction,
        claim: Claim,
        key: str,
    ) -> Fit:
        """Fit with the noise that ``key`` decides; spends all that the model claims."""
        accountant = Accountant(claim.amount, claim.currency)
        curator = Curator(
            counter,
            domain=spec.domain,
            reach=spec.reach,
            accountant=accountant,
            transcript=Transcript(),
            noise=SeededNoise(seed_of("noise", key)),
            benchmark=not spec.is_release,
            relation=spec.relation,
        )
        rng = np.random.default_rng(seed_of("post-processing", key))
        began = time.perf_counter()
        released = model.fit(curator, epsilon=epsilon, rng=rng)
        seconds = time.perf_counter() - began
        accountant.require_all_spent()
        return cls(released, seconds, accountant.kind)

    def require_claimed(self, claim: Claim, key: str) -> None:
        """BoundaryViolation for a fit that disclosed what its model does not say."""
        if self.kind != claim.kind:
            raise BoundaryViolation(
                f"{key}: expected a {claim.kind} fit as claimed, got a {self.kind} one"
            )

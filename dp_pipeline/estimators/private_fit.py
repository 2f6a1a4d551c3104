"""PrivateFit: one clustering of rows in memory, through the gate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.counts import Counter
from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.models.base import Model
from dp_pipeline.release.accountant import Accountant, Spend
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.schema.domain import Domain
from dp_pipeline.schema.errors import BoundaryViolation
from dp_pipeline.schema.protection import OneRow, Relation, reach

UNIT = OneRow()
RELATION: Relation = "add_remove"


@dataclass(frozen=True)
class Fitted:
    """What a fit releases.

    spends   every look at the rows; their ε add up to that of the fit
    chain    hex digest of all questions and noisy answers
    """

    clusters: Clusters
    spends: tuple[Spend, ...]
    chain: str


@dataclass(frozen=True)
class PrivateFit:
    """Everything of one fit but the rows: public.

    method   name of the model
    """

    method: str
    model: Model
    domain: Domain
    epsilon: Fraction

    def run(self, counter: Counter, *, noise: NoiseSource, rng: np.random.Generator) -> Fitted:
        """Ask through the gate; spends exactly ε, or raises. ``rng`` is for post-processing."""
        accountant, transcript = Accountant(self.epsilon), Transcript()
        curator = Curator(
            counter,
            domain=self.domain,
            reach=reach(UNIT, RELATION),
            accountant=accountant,
            transcript=transcript,
            noise=noise,
        )
        released = self.model.fit(curator, epsilon=self.epsilon, rng=rng)
        accountant.require_all_spent()
        if not isinstance(released, Clusters):
            raise BoundaryViolation(f"{self.method}: expected centres, got another release")
        return Fitted(released, accountant.spends, transcript.chain)

"""Discovery of a domain: looks at rows of which levels, bounds or quantiles are not declared."""

from __future__ import annotations

from dp_pipeline.gate.counter import UndeclaredCounter
from dp_pipeline.gate.noise import NoiseSource
from dp_pipeline.release.accountant import Accountant
from dp_pipeline.release.transcript import Transcript
from dp_pipeline.spec.dataset import DatasetSpec
from dp_pipeline.spec.discovered import DiscoveredDomain


def discover(
    spec: DatasetSpec,
    counter: UndeclaredCounter | None,
    accountant: Accountant,
    transcript: Transcript,
    noise: NoiseSource,
) -> DiscoveredDomain:
    """What the rows say, for ``spec.discover.epsilon`` and its δ, of what is not declared.

    counter      exact answers, or None: only the transcript can be replayed
    accountant   a budget of exactly ``spec.discover.epsilon``, in pure ε; all of it is charged
    transcript   every answer is stored there before anything is made of it
    noise        where the noise comes from

    NotDiscovered, by a rule on noisy counts, where they say too little of an attribute; the whole
    budget is spent then. DeclarationError where nothing is to be discovered.
    """
    raise NotImplementedError

"""ReleaseKey: what makes two releases the same one, so that asking again costs nothing.

A key that was paid for stays the same for ever: see ``schema.as_before`` before adding a field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_pipeline.schema.as_before import said
from dp_pipeline.schema.epsilon import epsilon_text


@dataclass(frozen=True)
class ReleaseKey:
    """Everything that decides which noisy answers a release holds. No row enters.

    declaration   digest of the measured declarations of the data set
    measuring     the model's measuring parameters, as text
    noise         noise source, with its seed if it has one
    replicate     0, and one more with every fresh draw that was asked for by name
    """

    lineage: str
    dataset: str
    snapshot: str
    declaration: str
    model: str
    measuring: Mapping[str, str]
    epsilon: Fraction
    evaluation: Fraction | None
    noise: str
    replicate: int = 0

    @property
    def digest(self) -> str:
        """Hex digest of all fields that have to be named."""
        fields = said(self)
        fields["epsilon"] = epsilon_text(self.epsilon)
        fields["evaluation"] = None if self.evaluation is None else epsilon_text(self.evaluation)
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def with_replicate(self, replicate: int) -> ReleaseKey:
        """The key of another draw of the same release."""
        return replace(self, replicate=replicate)

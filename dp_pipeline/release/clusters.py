"""Clusters: released centres and the synopsis that they were made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.release.quadtree import Synopsis
from dp_pipeline.schema.encoding import FloatArray

Tables = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Clusters:
    """What a clustering model releases.

    centres    float (k, d), data units, inside the declared box
    synopsis   noisy boxes: another k needs no further ε
    """

    columns: tuple[str, ...]
    centres: FloatArray
    synopsis: Synopsis

    def tables(self) -> Tables:
        """``centres``, one row each, and ``synopsis``, one row a box."""
        centres = {name: self.centres[:, axis] for axis, name in enumerate(self.columns)}
        return {"centres": centres, "synopsis": self.synopsis.table()}

"""Clusters: released centres, and the synopsis or the sizes that came with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_pipeline.release.synopsis import Synopsis
from dp_pipeline.schema.encoding import FloatArray

Tables = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Clusters:
    """What a clustering model releases.

    centres    float (k, d), data units, inside the declared box
    synopsis   noisy boxes that the centres were made from: another k needs no further ε;
               None where there are none
    sizes      float (k,), noisy rows of each centre, may be negative; None where not measured
    """

    columns: tuple[str, ...]
    centres: FloatArray
    synopsis: Synopsis | None = None
    sizes: FloatArray | None = None

    def tables(self) -> Tables:
        """``centres``, one row each; where there are any, ``synopsis``, one row a box, and
        ``sizes``, one row a centre.
        """
        tables = {"centres": {name: self.centres[:, a] for a, name in enumerate(self.columns)}}
        if self.synopsis is not None:
            tables["synopsis"] = self.synopsis.table()
        if self.sizes is not None:
            tables["sizes"] = {"size": self.sizes}
        return tables

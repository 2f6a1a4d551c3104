"""Generators: made-up populations, one a file; the same seed gives the same bytes.

Every generator is ``generate(seed=…, rows=…) -> pyarrow.Table`` and draws from
NumPy's PCG64 only, so a table is the same on every machine with one NumPy version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa

from dp_pipeline.raw.generators import census_like, clusters, tic_like, trips_like

GENERATORS: Mapping[str, Callable[..., pa.Table]] = {
    "birch3_like": clusters.birch3_like,
    "census_like": census_like.generate,
    **{f"mixture{d}": partial(clusters.mixture, dimensions=d) for d in (4, 6, 8)},
    "pytest2d": clusters.pytest2d,
    "tic_like": tic_like.generate,
    "trips_like": trips_like.generate,
    "unbalance_like": clusters.unbalance_like,
}
"""Name in a data set file → generator."""

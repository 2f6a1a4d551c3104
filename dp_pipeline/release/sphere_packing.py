"""Places far from one another and from the walls of a box: starts that read no row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_pipeline.schema.encoding import COORDINATE_BITS, Coordinate, FloatArray

_HALVINGS = 8
_BATCHES, _BATCH = 20, 5
"""Candidates for one place before a radius is given up."""


def pack_spheres(k: int, box: Sequence[Coordinate], rng: np.random.Generator) -> FloatArray:
    """k places, float (k, d) in data units, inside the box.

    In the box scaled to [−1, 1]^d, the centres of k spheres that lie inside it and do not
    overlap; their common radius is the largest, by bisection, for which random
    insertion finds room for all. Source: Su et al., CODASPY 2016.
    """
    low, high = 0.0, min(1.0, 2 * k ** (-1 / len(box)))
    places = rng.uniform(-1, 1, size=(k, len(box)))
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        packed = _packed(places.shape, radius, rng)
        if packed is None:
            high = radius
        else:
            low, places = radius, packed
    columns = (places * (1 << COORDINATE_BITS)).T
    return np.stack([one.decode(q) for one, q in zip(box, columns, strict=True)], axis=1)


def _packed(shape: tuple[int, ...], radius: float, rng: np.random.Generator) -> FloatArray | None:
    places = np.empty(shape)
    for at in range(len(places)):
        place = _apart(places[:at], radius, rng)
        if place is None:
            return None
        places[at] = place
    return places


def _apart(places: FloatArray, radius: float, rng: np.random.Generator) -> FloatArray | None:
    """A random place for one more sphere beside those at ``places``, if one is found."""
    for _ in range(_BATCHES):
        candidates = rng.uniform(radius - 1, 1 - radius, size=(_BATCH, places.shape[1]))
        # Axis by axis, not by a matrix product, whose last digit depends on the machine: a
        # replay must find the same places.
        squares = np.zeros((_BATCH, len(places)))
        for mine, theirs in zip(candidates.T, places.T, strict=True):
            squares += (mine[:, None] - theirs) ** 2
        fits = (squares >= 4 * radius**2).all(axis=1)
        if fits.any():
            return np.asarray(candidates[fits.argmax()])
    return None

"""Noisy rounds of Lloyd's algorithm: what the k-means models that move centres share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_pipeline.gate.curator import Curator
from dp_pipeline.gate.nearest_centre import NearestCentre
from dp_pipeline.release.budget import split
from dp_pipeline.release.clusters import Clusters
from dp_pipeline.schema.encoding import FloatArray


@dataclass(frozen=True)
class NoisyMeans:
    """Clusters of m subsets after a noisy round.

    centres   float (m, k, d), data units, inside the box
    sizes     float (m, k), noisy rows; may be negative
    """

    columns: tuple[str, ...]
    centres: FloatArray
    sizes: FloatArray

    def clusters(self) -> Clusters:
        """The clusters of the only subset."""
        return Clusters(self.columns, self.centres[0], sizes=self.sizes[0])


def lloyd_round(
    curator: Curator,
    columns: tuple[str, ...],
    centres: FloatArray,
    *,
    epsilon: Fraction,
    sizes_share: Fraction,
    salt: int = 0,
) -> NoisyMeans:
    """Every centre becomes the noisy total of its rows over their noisy number.

    centres       (m, k, d) in data units, one set a subset of the rows; rounded to fixed
                  point, and to the box, before rows are sought
    sizes_share   share of ε for the sizes; the totals get the rest

    *Proof.* One row is in one subset and nearest to one centre. Sizes: Δ1 = 1.
    Totals of fixed-point coordinates: Δ1 = d·2^16. Two units, so two measures,
    and their ε add up to ``epsilon``. A centre whose **noisy** size is below 1 stays
    where it was sought; the true size is never looked at. ∎
    """
    box = curator.domain.box(columns)
    rules = [NearestCentre.of(columns, one, box) for one in centres]
    noisy = curator.measure_clusters(
        rules,
        sizes_epsilon=epsilon * sizes_share,
        totals_epsilon=epsilon * (1 - sizes_share),
        salt=salt,
    )
    means = noisy.totals / np.maximum(noisy.sizes, 1)[..., None]
    moved = np.stack([one.decode(means[..., axis]) for axis, one in enumerate(box)], axis=-1)
    asked = np.stack([rule.centres_in(box) for rule in rules])
    stays = (noisy.sizes < 1)[..., None]
    sizes = noisy.sizes.astype(np.float64)
    return NoisyMeans(columns, np.where(stays, asked, moved), sizes)


def lloyd_rounds(
    curator: Curator,
    columns: tuple[str, ...],
    centres: FloatArray,
    *,
    epsilons: Sequence[Fraction],
    sizes_share: Fraction,
    salt: int = 0,
) -> NoisyMeans:
    """One round after another, as many as there are ``epsilons``, at least one."""
    means = NoisyMeans(columns, centres, np.zeros(centres.shape[:2]))
    for epsilon in epsilons:
        means = lloyd_round(
            curator, columns, means.centres, epsilon=epsilon, sizes_share=sizes_share, salt=salt
        )
    return means


def equal_noise(dimensions: int) -> Fraction:
    """The share of the sizes that gives a size, in rows, and a total, in half-widths, the same
    noise: 1/(d + 1).
    """
    return Fraction(1, dimensions + 1)


def round_budgets(epsilon: Fraction, rounds: int, budgets: str) -> tuple[Fraction, ...]:
    """ε of every round. ``fixed``: equal shares; ``halving``: ε/2, ε/4, …, the last gets the rest.

    >>> [str(one) for one in round_budgets(Fraction(1), 3, "halving")]
    ['1/2', '1/4', '1/4']
    """
    halved = [1 << (rounds - 1 - at) for at in range(1, rounds)] + [1]
    return split(epsilon, halved if budgets == "halving" else [1] * rounds)

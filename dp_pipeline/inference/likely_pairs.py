"""Likely counts of pairs of parts of units, given noisy ones."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from dp_pipeline.config.domain import pair_count
from dp_pipeline.config.encoding import FloatArray

DISTANCES = (0.1, 0.4, 1.6)
"""Possible distances τ of cells from independence, as in ``likely_pairs``."""

FALLS = (0.0, 0.5, 1.0)
"""Possible powers of the number of pairs with which distances fall: 0 where all parts are alike, 1
where one couple of each unit is."""

CORRELATIONS = (0.5, 0.8, 0.95)
"""Possible correlations of a cell with that of units of one part more."""


def likely_pairs(
    noisy: FloatArray, variances: FloatArray, margins: FloatArray, *, in_order: bool
) -> FloatArray:
    """Return the likely counts ≥ 0 of pairs of parts by the levels of an attribute of both parts
    (c, k, k), for units of 2, 3, … parts.

    noisy       (c, k, k) noisy counts: of successive parts, or of a set each pair in both orders
    variances   (c, k, k) noise variance of each cell
    margins     (c, k) counts of pairs by one part's level, which the result has nearly
    in_order    whether parts are in order, so that a table need not be symmetric

    Of m_a and m_b pairs a cell has m_a·m_b/m under independence, and a normal number more, of
    standard deviation τ·√(m_a·m_b)/k; τ falls with the size, and cells of two sizes correlate. The
    result is the posterior mean over all priors, weighted by their likelihood. So cells of noise
    alone stay near to independence, and rare sizes take the dependence of the others. Cells below 0
    are emptied, and the margins restored once.

    Source: Gaussian process regression, Rasmussen and Williams, 2006.

    >>> noisy, margins = np.array([[[82.0, 18.0], [18.0, 82.0]]]), np.array([[100.0, 100.0]])
    >>> few, much = np.ones((1, 2, 2)), np.full((1, 2, 2), 1e6)
    >>> [likely_pairs(noisy, noise, margins, in_order=False)[0, 0].round() for noise in (few, much)]
    [array([82., 18.]), array([50., 50.])]
    """
    levels = margins.shape[1]
    products = _outer(margins) / np.maximum(margins.sum(axis=1), 1.0)[:, None, None]
    scales = np.sqrt(_outer(np.maximum(margins, 1.0))) / levels
    is_cell = np.ones((levels, levels), dtype=np.bool_)
    is_cell = is_cell if in_order else np.triu(is_cell)
    away = np.zeros_like(products)
    away[:, is_cell] = _posterior_mean(
        ((noisy - products) / scales)[:, is_cell],
        np.maximum(variances / scales**2, 1e-9)[:, is_cell],
        [pair_count(2 + place, in_order=in_order) for place in range(len(noisy))],
    )
    if not in_order:
        away += np.triu(away, 1).swapaxes(1, 2)
    near = np.maximum(0.0, products + scales * away)
    sums = (near.sum(axis=1) + near.sum(axis=2)) / 2
    return np.asarray(near * np.sqrt(_outer(margins / np.maximum(sums, 1e-9))))


def _outer(margins: FloatArray) -> FloatArray:
    return np.asarray(margins[:, :, None] * margins[:, None, :])


def _posterior_mean(
    away: FloatArray, variances: FloatArray, pairs_a_unit: Sequence[int]
) -> FloatArray:
    """Return the posterior mean (c, cells) of scaled differences from independence, over all
    priors, given noisy differences with these variances."""
    logs, means = [], []
    places, pairs = np.arange(len(pairs_a_unit)), np.array(pairs_a_unit) / pairs_a_unit[0]
    for distance, fall, correlation in product(DISTANCES, FALLS, CORRELATIONS):
        # The covariance (c, c) of one cell between tables of the c sizes.
        deviations = distance * pairs**-fall
        correlations = correlation ** np.abs(places[:, None] - places)
        prior = np.outer(deviations, deviations) * correlations
        both = prior + np.eye(len(prior)) * variances.T[:, :, None]
        solved = np.linalg.solve(both, away.T[:, :, None])[..., 0]
        logs.append(-((solved * away.T).sum() + np.linalg.slogdet(both)[1].sum()) / 2)
        means.append(prior @ solved.T)
    weights = np.exp(np.array(logs) - max(logs))
    return np.asarray(np.tensordot(weights / weights.sum(), means, axes=1))

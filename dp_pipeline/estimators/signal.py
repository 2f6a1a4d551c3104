"""Whether a fit had enough rows for its ε and k, judged by noisy counts alone."""

from __future__ import annotations

from fractions import Fraction

from dp_pipeline.release.clusters import Clusters

ENOUGH = 20
"""N̂·ε/k below which centres are mostly noise."""


class WeakSignal(UserWarning):
    """Too few rows for this ε and this number of centres."""


def warning_of(clusters: Clusters, epsilon: Fraction) -> str:
    """What to warn of, from the noisy total of what was released; empty where nothing is to be
    said, or no total was released.
    """
    if clusters.synopsis is not None:
        total = float(clusters.synopsis.weights.sum())
    elif clusters.sizes is not None:
        total = float(clusters.sizes.sum())
    else:
        return ""
    k = len(clusters.centres)
    signal = max(0.0, total) * float(epsilon) / k
    if signal >= ENOUGH:
        return ""
    return (
        f"PrivateKMeans: expected N·ε/k of at least {ENOUGH}, got {signal:.1f} by a noisy count: "
        f"{k} centres are mostly noise at this ε"
    )

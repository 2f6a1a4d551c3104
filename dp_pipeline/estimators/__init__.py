"""Private models, and k-anonymous columns, as scikit-learn estimators over rows in memory.

This is the only part of the package that imports scikit-learn at once.
"""

from dp_pipeline.estimators.k_anonymous_selector import KAnonymousSelector
from dp_pipeline.estimators.parameters import InvalidParameter
from dp_pipeline.estimators.plots import plot_map, plot_marginals, plot_pairs
from dp_pipeline.estimators.private_estimator import WeakSignal
from dp_pipeline.estimators.private_kmeans import PrivateKMeans
from dp_pipeline.estimators.private_synthesizer import PrivateSynthesizer

__all__ = [
    "InvalidParameter",
    "KAnonymousSelector",
    "PrivateKMeans",
    "PrivateSynthesizer",
    "WeakSignal",
    "plot_map",
    "plot_marginals",
    "plot_pairs",
]

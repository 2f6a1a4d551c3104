"""Private models, and k-anonymous columns, with the manners of scikit-learn; rows in memory, no
data set file.

Importing this costs an import of scikit-learn: nothing else in the package does so.
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

"""The charts that reports and Dagster show, as PNG: below 50 kB; graphs and marginals 100 kB, maps
200 kB.
"""

from dp_pipeline.reporting.figures.cluster_map import cluster_maps
from dp_pipeline.reporting.figures.curves import (
    budget_staircase,
    k_anonymity_plot,
    utility_panels,
    utility_plot,
)
from dp_pipeline.reporting.figures.tables import marginal_bars, model_graph

__all__ = [
    "budget_staircase",
    "cluster_maps",
    "k_anonymity_plot",
    "marginal_bars",
    "model_graph",
    "utility_panels",
    "utility_plot",
]

"""The charts that reports and Dagster show, as PNG: below 50 kB; graphs 100 kB, maps 200 kB."""

from dp_pipeline.reporting.budget_staircase import budget_staircase
from dp_pipeline.reporting.cluster_chart import cluster_maps
from dp_pipeline.reporting.marginal_chart import marginal_bars
from dp_pipeline.reporting.model_graph_chart import model_graph
from dp_pipeline.reporting.utility_chart import utility_panels, utility_plot

__all__ = [
    "budget_staircase",
    "cluster_maps",
    "marginal_bars",
    "model_graph",
    "utility_panels",
    "utility_plot",
]

"""The charts that reports and Dagster show: PNG bytes of less than 50 kB, maps of 200 kB."""

from dp_pipeline.reporting.cluster_chart import cluster_maps
from dp_pipeline.reporting.marginal_chart import marginal_bars
from dp_pipeline.reporting.utility_chart import utility_plot

__all__ = ["cluster_maps", "marginal_bars", "utility_plot"]

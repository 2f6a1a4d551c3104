"""The charts that reports and Dagster show: PNG bytes of less than 50 kB each."""

from dp_pipeline.reporting.cluster_chart import cluster_map
from dp_pipeline.reporting.marginal_chart import marginal_bars
from dp_pipeline.reporting.utility_chart import utility_plot

__all__ = ["cluster_map", "marginal_bars", "utility_plot"]

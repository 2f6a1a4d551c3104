"""The figures of reports and of Dagster: lines, bars, maps and graphs, with alternative texts."""

from dp_pipeline.reporting.figures.budget import BudgetHistory, budget_staircase, window_costs
from dp_pipeline.reporting.figures.cluster_map import cluster_maps
from dp_pipeline.reporting.figures.lines import line_chart
from dp_pipeline.reporting.figures.marginals import marginal_bars
from dp_pipeline.reporting.figures.model_graph import model_graph
from dp_pipeline.reporting.figures.picture import Picture

__all__ = [
    "BudgetHistory",
    "Picture",
    "budget_staircase",
    "cluster_maps",
    "line_chart",
    "marginal_bars",
    "model_graph",
    "window_costs",
]

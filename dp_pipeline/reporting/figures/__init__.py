"""The figures of reports and of Dagster: lines, bars, maps and graphs, with alternative texts."""

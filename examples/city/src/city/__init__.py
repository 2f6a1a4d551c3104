"""A city's Dagster project: the weather is its own, the rides are released by dp_pipeline."""

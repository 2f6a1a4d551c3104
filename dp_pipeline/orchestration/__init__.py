"""The pipeline in Dagster: assets, checks, jobs, schedules and sensors."""

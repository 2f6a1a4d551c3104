"""The pipeline as Dagster sees it: assets, checks, jobs, schedules, sensors."""

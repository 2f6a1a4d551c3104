"""Where rides end, released by dp_pipeline."""

from pathlib import Path

from dp_pipeline.dagster import dataset_definitions

PROJECT = Path(__file__).resolve().parents[3]

defs = dataset_definitions(PROJECT / "src/city/data_sets/rides.yaml", home=PROJECT / "data")

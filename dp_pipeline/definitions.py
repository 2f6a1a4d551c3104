"""Where Dagster starts reading: every data set that is available here."""

from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.resources import Pipeline
from dp_pipeline.schema.discovery import discover

defs = pipeline_definitions(discover(), Pipeline.from_environment())

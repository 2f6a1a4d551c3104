"""Where Dagster starts reading: every data set that is available here."""

from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.resources import PipelineResource
from dp_pipeline.schema.discovery import discover

defs = pipeline_definitions(discover(), PipelineResource.from_environment())

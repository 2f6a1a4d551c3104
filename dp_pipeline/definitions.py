"""Where Dagster starts reading: every data set that is available here."""

import gc

from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import keep_files_private
from dp_pipeline.spec.discovery import discover

# A process that loads it runs assets, or starts the processes that do.
keep_files_private()

defs = pipeline_definitions(discover(), Pipeline.from_environment())

# It stays as long as this process: no collection has to walk through it again.
gc.freeze()

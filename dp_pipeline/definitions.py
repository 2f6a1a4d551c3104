"""The definitions that Dagster loads: every available data set whose file is not refused."""

import gc

from dp_pipeline.config.catalogue import Refusals, available_datasets
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import keep_files_private

# A process that loads this file runs assets, or starts the processes that do.
keep_files_private()

refused: Refusals = {}
defs = pipeline_definitions(available_datasets(refused), Pipeline.from_environment(), refused)

# The definitions live as long as this process, so garbage collection can ignore them.
gc.freeze()

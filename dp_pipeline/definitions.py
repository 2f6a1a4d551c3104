"""Where Dagster starts reading: every data set that is available here. A file that is refused takes
none of the others away.
"""

import gc

from dp_pipeline.config.discovery import Refusals, discover
from dp_pipeline.orchestration.common import Pipeline
from dp_pipeline.orchestration.dataset import pipeline_definitions
from dp_pipeline.orchestration.instance import keep_files_private

# A process that loads it runs assets, or starts the processes that do.
keep_files_private()

refused: Refusals = {}
defs = pipeline_definitions(discover(refused), Pipeline.from_environment(), refused)

# It stays as long as this process: no collection has to walk through it again.
gc.freeze()

"""``python -m dp_pipeline.cli.json_schema > dp_pipeline/spec/dataset.schema.json``."""

import sys

from dp_pipeline.cli.json_schema.whole import schema_text

sys.stdout.write(schema_text())

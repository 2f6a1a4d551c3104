"""``python -m dp_pipeline.cli.editor_schema > dp_pipeline/schema/dataset.schema.json``."""

import sys

from dp_pipeline.cli.editor_schema.whole import schema_text

sys.stdout.write(schema_text())

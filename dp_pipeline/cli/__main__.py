"""``python -m dp_pipeline.cli``."""

from dp_pipeline.cli import run_process

run_process()

"""``python -m dp_pipeline.cli``."""

from dp_pipeline.cli import main

main()

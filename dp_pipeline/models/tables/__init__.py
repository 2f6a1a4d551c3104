"""Private models of synthetic tables."""

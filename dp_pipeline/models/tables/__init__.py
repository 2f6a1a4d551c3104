"""Private tables: one file a model."""

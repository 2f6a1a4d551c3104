"""Private clusterings: one file a model."""

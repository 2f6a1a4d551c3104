"""The default for tables: a plan, a search over it, the model."""

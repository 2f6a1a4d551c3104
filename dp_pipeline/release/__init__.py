"""Values that may leave."""

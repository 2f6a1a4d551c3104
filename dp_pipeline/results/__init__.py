"""Values that may leave: noisy answers, synthetic tables, clusters, and their charges."""

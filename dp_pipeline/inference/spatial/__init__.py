"""Clusters from noisy counts of cells."""

"""Measures of the quality and disclosure of releases, computed from arrays."""

"""Time and memory, one script each, and the papers' figures: no part of the package."""

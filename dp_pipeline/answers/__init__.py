"""Answers from a release alone: counts, shares, means and quantiles, each with an interval.

Everything here is post-processing of released tables: no row, no home and no budget is reached.
"""

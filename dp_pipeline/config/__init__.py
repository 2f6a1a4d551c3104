"""Declarations of data sets, made before anyone sees a row."""

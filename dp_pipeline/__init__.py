"""Differentially private releases of sensitive tables and locations, orchestrated with Dagster."""

__version__ = "0.1.0"

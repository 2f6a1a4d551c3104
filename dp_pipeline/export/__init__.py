"""Exports: a release as a folder that can be read and checked without this program's home."""

"""Exports: a release as a folder that anybody can read and check, without a home or this program's
store.
"""

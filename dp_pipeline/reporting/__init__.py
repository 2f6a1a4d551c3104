"""Texts, pages and figures about releases."""

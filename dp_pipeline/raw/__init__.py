"""Rows: reading, checking, preparing and counting them."""

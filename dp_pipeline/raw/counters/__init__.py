"""Engines that count prepared rows."""

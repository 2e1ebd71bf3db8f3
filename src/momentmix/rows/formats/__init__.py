"""Formats and sources, but for CSV, which has a package of its own."""

"""Rows on a cluster."""

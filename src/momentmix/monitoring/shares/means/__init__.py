"""Means of components that differ between groups."""

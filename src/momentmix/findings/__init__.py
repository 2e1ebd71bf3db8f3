"""Findings about a fit: data, and one catalog of sentences."""

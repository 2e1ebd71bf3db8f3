"""Findings about a fit, a comparison or a track: data, and one catalog of sentences."""

"""Exact sums as words of 64 bits, and what changes their units."""

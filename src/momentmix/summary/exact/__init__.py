"""Exact sums of moments: their integers, and what is done with them."""

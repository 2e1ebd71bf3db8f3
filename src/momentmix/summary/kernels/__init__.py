"""Sums of all moments of a block of rows: compiled, by NumPy or torch, by Triton."""

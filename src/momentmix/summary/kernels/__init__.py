"""Sums of all moments of a block of rows: NumPy, compiled, array API, Triton."""

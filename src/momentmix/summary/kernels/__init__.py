"""Blocks of rows → sums of all their moments: compiled, array API, Triton."""

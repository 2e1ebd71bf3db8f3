"""Incomplete symmetric tensors and their decomposition (paper, sections 3 and 4)."""

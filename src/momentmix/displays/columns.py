"""Columns of a mixture that are numbers: which they are, and how they vary over all components."""

from momentmix.mixture.overall import numeric_columns, overall_spread

__all__ = ["numeric_columns", "overall_spread"]

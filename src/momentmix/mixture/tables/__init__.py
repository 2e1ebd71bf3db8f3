"""Mixtures of the columns of a table: families, missing cells, and how they become features."""

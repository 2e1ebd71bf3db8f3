"""Input → numbers: tables of all kinds, their schema, and rows of features."""

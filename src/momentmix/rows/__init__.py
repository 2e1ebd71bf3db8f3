"""Rows from arrays, data frames and files, as blocks that can be read more than once."""

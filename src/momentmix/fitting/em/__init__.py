"""A mixture from rows: a sample, starts, pooling, the search among them, passes."""

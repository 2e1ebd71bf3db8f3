"""A mixture from rows: a sample, starts, pooling, repair, the search among them, passes."""

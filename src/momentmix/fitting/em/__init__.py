"""A mixture from rows: starts, pooling, repair, EM passes."""

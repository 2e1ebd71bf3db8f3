"""A mixture from moments: conditions by blocks, candidates, splits, efficient steps."""

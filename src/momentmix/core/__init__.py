"""Layer 0: the values that every stage shares."""

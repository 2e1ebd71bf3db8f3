"""Algorithm 5.1 of the paper, as printed."""

"""Shares of fixed components in groups: the mathematics of `track`."""

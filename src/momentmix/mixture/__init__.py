"""The value: a mixture, its densities and its file."""

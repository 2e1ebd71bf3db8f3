"""CSV files: the reader, the dialect, where lines end, and numbers."""

"""CSV text: its dialect, where its lines end, its numbers."""

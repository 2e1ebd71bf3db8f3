"""Stage 1: rows to moments."""

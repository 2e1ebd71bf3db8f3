"""Stage 1: rows → moment summary, in one pass."""

"""Stage 3: moments to a mixture."""

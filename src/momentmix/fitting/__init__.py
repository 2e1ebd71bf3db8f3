"""Stage 3: moments → mixture."""

"""Tables that commands write: labels, scores, rows, and columns copied from the input."""

"""Parts of a comparison: moments of both sides, changes one by one, tests together."""

"""From rows to a moment summary, in one pass."""

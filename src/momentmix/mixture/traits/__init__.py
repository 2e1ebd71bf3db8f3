"""Sentences that tell a component from the others, and how many rows they sort rightly."""

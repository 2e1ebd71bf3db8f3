"""The shard that is being filled: rows → blocks → exact sums."""

"""Pictures of groups and times: comparisons of summaries, shares over time."""

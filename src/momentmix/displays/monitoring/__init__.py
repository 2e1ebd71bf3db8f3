"""Pictures of groups and times: shares over time."""

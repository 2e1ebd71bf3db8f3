"""Groups and times beside a model: comparing summaries, following shares."""

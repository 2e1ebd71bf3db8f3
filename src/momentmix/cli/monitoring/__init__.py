"""Commands for groups and times beside a model."""

"""A mixture from moments alone: candidates, selection, polish, variances."""

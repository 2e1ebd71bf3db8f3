"""The robust method: moments, then passes over the rows where there are rows."""

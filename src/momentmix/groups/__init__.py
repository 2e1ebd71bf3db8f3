"""One summary for each group of rows: by region, by week, by anything that columns say."""

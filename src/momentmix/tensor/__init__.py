"""Stage 2: incomplete symmetric tensor → factor vectors. Knows no data and no mixtures."""

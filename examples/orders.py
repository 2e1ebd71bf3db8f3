"""Write orders.parquet: 24,000 orders of three regions from May to June, for "Groups and drift".

There are three segments of orders. From May to June the share of the second one grows, in all
regions; the segments themselves stay as they are.
"""

from __future__ import annotations

import numpy as np
import pyarrow
from pyarrow import parquet

import momentmix as mm

N_ORDERS = 24_000
REGIONS = ("Asia", "EU", "US")
FIRST_DAY, N_DAYS = np.datetime64("2026-05-04"), 56  # eight weeks, from a Monday on
SEGMENTS = mm.Mixture.diagonal(
    [0.5, 0.3, 0.2],
    [[20, 2, 8, 1, 3, 30], [60, 5, 3, 4, 1, 45], [35, 9, 14, 6, 2, 60]],
    [[36, 1, 4, 1, 1, 64], [100, 2, 1, 1, 0.5, 81], [64, 4, 9, 2, 1, 100]],
    ["amount", "items", "minutes", "discount", "kilograms", "kilometers"],
)


def main() -> None:
    """Draw the orders and write the file."""
    rng = np.random.default_rng(0)
    values, segments = SEGMENTS.sample(N_ORDERS, random_state=0)
    # Orders of the second segment are late ones more often.
    days = N_DAYS * rng.beta(np.where(segments == 1, 1.6, 1.0), 1.0, N_ORDERS)
    columns = dict(zip(SEGMENTS.feature_names, values.T, strict=True))
    columns["region"] = rng.choice(REGIONS, N_ORDERS, p=[0.2, 0.5, 0.3])
    columns["ts"] = FIRST_DAY + (86_400 * days).astype("timedelta64[s]")
    parquet.write_table(pyarrow.table(columns), "orders.parquet")


if __name__ == "__main__":
    main()

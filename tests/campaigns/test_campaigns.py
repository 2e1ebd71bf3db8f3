"""Every campaign, a batch of cases a test: ``pytest -m long -k offsets`` runs one of them.

A campaign ``run(start, stop, seed)`` does the cases start … stop−1, raises where something is
wrong, and returns a Counter. A case depends on its number and the seed alone.
"""

import pytest

from campaigns.damaged_tables import damaged_cubes
from campaigns.forgetting import forgetting_files
from campaigns.hostile_files import hostile_files
from campaigns.offsets import extremes, offsets
from campaigns.random_fits import random_fits
from campaigns.wrong_models import untrustworthy_fits

CAMPAIGNS = {  # number of cases, cases in a batch
    untrustworthy_fits: (300, 5),
    hostile_files: (100_000, 2_000),
    offsets: (10_000, 100),
    extremes: (5_000, 250),
    forgetting_files: (5_000, 250),
    damaged_cubes: (20_000, 2_000),
    random_fits: (400, 10),
}
BATCHES = [
    pytest.param(run, start, min(start + batch, total), id=f"{run.__name__}-{start}")
    for run, (total, batch) in CAMPAIGNS.items()
    for start in range(0, total, batch)
]


@pytest.mark.long
@pytest.mark.parametrize(("run", "start", "stop"), BATCHES)
def test_batch(run, start, stop, request):
    counts = run(start, stop, request.config.getoption("campaign_seed"))
    assert counts.total() >= stop - start

"""Every campaign, a batch of cases a test: ``pytest -m long -k merge_trees`` runs one of them.

What the batches counted is printed at the end of the run.
"""

import pytest

from campaigns import (
    bad_input,
    damaged_tables,
    forgetting,
    many_rows,
    merge_trees,
    mutated_files,
    offsets,
    random_fits,
    reshifts,
    resuming,
    saving,
    wrong_models,
)

MODULES = [many_rows, wrong_models, resuming, mutated_files, merge_trees, offsets, reshifts]
MODULES += [saving, forgetting, bad_input, damaged_tables, random_fits]
BATCHES = [
    pytest.param(campaign, start, id=f"{campaign.name}-{start}")
    for module in MODULES
    for campaign in module.CAMPAIGNS
    for start in campaign.starts
]


@pytest.mark.long
@pytest.mark.parametrize(("campaign", "start"), BATCHES)
def test_batch(campaign, start, record_property, request):
    stop = min(start + campaign.batch, campaign.total)
    counts = campaign.run(start, stop, request.config.getoption("campaign_seed"))
    report = (campaign.name, len(campaign.starts), campaign.goals, dict(counts))
    record_property("campaign", [report])

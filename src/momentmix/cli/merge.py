"""``momentmix merge``: summaries → one summary."""

from __future__ import annotations

import click

from momentmix.cli.options import force_option, json_option
from momentmix.cli.output import check_output, say, say_json


@click.command("merge", short_help="Add summaries.")
@click.argument("summaries", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="File of the merged summary.")
@click.option(
    "--truncate", is_flag=True, help="Reduce summaries of different orders to the lowest."
)
@force_option
@json_option
def merge_command(
    summaries: tuple[str, ...], output: str, truncate: bool, force: bool, as_json: bool
) -> None:
    """Add summaries of different rows. The sum is exact, in whatever order they are merged."""
    from momentmix.cli.summaries import load_sum

    check_output(output, summaries, force)
    total = load_sum(summaries, truncate)
    total.save(output)
    report = {
        "output": output,
        "n_rows": total.n_rows,
        "n_features": total.n_features,
        "order": total.order,
        "n_shards": len(total.shard_ids),
    }
    if as_json:
        say_json(report)
    else:
        say(f"{output}: {total}")

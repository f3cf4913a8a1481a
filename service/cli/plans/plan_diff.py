"""`agenda plan-diff`: what became of each request between two Plans."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.plans.difference_tables import difference_rows, print_differences
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DIFFER, DONE
from service.cli.terminal.options import READABLE
from service.cli.terminal.output import (
    CSV,
    JSON,
    format_option,
    print_csv,
    print_json,
    print_table,
    print_title,
)


@click.command("plan-diff")
@click.argument("before", type=READABLE)
@click.argument("after", type=READABLE)
@click.option("--exit-code", is_flag=True, help="Exit with 8 if any request differs.")
@format_option()
@reports_errors
def plan_diff(before: Path, after: Path, exit_code: bool, form: str) -> int:
    """Show which requests were added, lost, moved or changed from the Plan BEFORE to AFTER."""
    from planner.files import read_plan
    from planner.workload.diff import plan_diff as difference_of

    difference = difference_of(read_plan(before), read_plan(after)).to_json()
    if form == JSON:
        print_json(difference)
    elif form == CSV:
        print_csv(*difference_rows(difference))
    else:
        metrics = [[name, *pair] for name, pair in difference["metrics"].items()]
        print_title("of all requests of both Plans; agenda plan says what the metrics are")
        print_table(("metric", "before", "after"), metrics)
        click.echo()
        print_differences(difference)
    return DIFFER if exit_code and difference["requests"] else DONE

"""`agenda validate`: the independent judge on a whole Plan file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from service.cli.codes import DONE, ERROR
from service.cli.options import READABLE
from service.cli.output import JSON, TABLE, format_option, print_json
from service.cli.trouble import Trouble, tells_trouble


@click.command()
@click.argument("plan", type=READABLE)
@click.option("--workload", type=READABLE, help="Also hold the Plan to what was asked.")
@format_option(TABLE, JSON)
@tells_trouble
def validate(plan: Path, workload: Path | None, form: str) -> int:
    """Re-check PLAN from nothing: capacity, fit, every expression, policies, states, ids.

    Shares no code with the planner. Prints the first violation and exits with 1 if there is any;
    -o json prints them all.
    """
    from planner.validator import validate as violations_of

    document = read_object(plan)
    violations = violations_of(document, asked=_asked(workload))
    count = len(document.get("reservations", ())), len(document.get("refusals", ()))
    if form == JSON:
        print_json(
            {
                "valid": not violations,
                "reservations": count[0],
                "refusals": count[1],
                "violations": [asdict(violation) for violation in violations],
            }
        )
    elif violations:
        more = f" (and {len(violations) - 1:,} more)" if len(violations) > 1 else ""
        first = violations[0]
        whose = f" ({first.reservation})" if first.reservation else ""
        click.echo(f"{plan}: {first.where}{whose}: {first.rule}: {first.detail}{more}")
    else:
        click.echo(f"valid: {count[0]:,} reservations, {count[1]:,} refusals")
    return ERROR if violations else DONE


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises
    ------
    Trouble
        If it is not one; the message names the line.
    """
    try:
        value = json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise Trouble(f"{path}, line {error.lineno}: not JSON ({error.msg})") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise Trouble(f"{path}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise Trouble(f"{path}: a Plan is a JSON object")
    return value


def _asked(workload: Path | None) -> list[str] | None:
    if workload is None:
        return None
    from planner.files import read_workload

    return [line.id for line in read_workload(workload)]

"""What the independent judge says of a whole Plan, and the files that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.terminal.errors import CliError
from service.cli.terminal.exit_codes import DONE, ERROR
from service.cli.terminal.output import JSON, print_json

if TYPE_CHECKING:
    from planner.files import WorkloadLine


def print_verdict(
    document: Mapping[str, Any], name: str, lines: Sequence[WorkloadLine] | None, form: str
) -> int:
    """Judge a Plan, print what was found, and return the exit code.

    Parameters
    ----------
    name
        Where the Plan is from.
    lines
        Requests that it must answer, or None.
    """
    from planner.validation.validate import validate

    asked = None if lines is None else [one.id for one in lines]
    violations = validate(document, asked=asked)
    if lines is not None:
        from planner.validation.workload import asked_violations

        violations += asked_violations(document, lines)
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
        first = violations[0]
        whose = f" ({first.reservation})" if first.reservation else ""
        text = f"{first.where}{whose}: {first.rule}: {first.detail}{_more(violations)}"
        click.echo(f"{name}: {text}")
    else:
        click.echo(f"valid: {count[0]:,} reservations, {count[1]:,} refusals")
    return ERROR if violations else DONE


def _more(found: Sequence[object]) -> str:
    return f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises
    ------
    FileError
        If it is not JSON; the message names the line.
    CliError
        If it is another JSON value.
    """
    from planner.files import parse_plan

    value = parse_plan(path)
    if not isinstance(value, dict):
        raise CliError(f"{path}: a Plan is a JSON object")
    return value


def requests_of(workload: Path, document: Mapping[str, Any]) -> list[WorkloadLine]:
    """Return what was asked; lines that are no requests were left out of the Plan too."""
    from planner.files import FileError, cluster_from_json, read_workload
    from planner.files.errors import FileProblems
    from service.cli.plans.workload_input import report_lines

    try:
        origin = cluster_from_json(document.get("cluster")).origin
    except FileError:
        origin = None  # the validator says what is wrong with the cluster
    bad = FileProblems()
    lines = list(read_workload(workload, origin, bad.append))
    report_lines(workload, bad)
    return lines

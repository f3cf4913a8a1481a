"""`agenda export`, `validate` and `plan-diff`: whole Plans, written, judged and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rdl.local_time import UTC_ZONE
from service.cli.kit.errors import DIFFER, DONE, ERROR, CliError, as_cli_error, reports_errors
from service.cli.kit.options import READABLE, WRITABLE
from service.cli.kit.output import (
    CSV,
    JSON,
    TABLE,
    format_option,
    local_text,
    present_layout,
    print_csv,
    print_json,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, client_options
from service.sentences import counted

if TYPE_CHECKING:
    from planner.files import PlanDocument, WorkloadLine

#: Most rows of a table on a terminal.
_SHOWN: Final = 50

#: Fates in the order of rows: losses, which no cut of a long table may hide, then what was won.
_WORST_FIRST: Final = (
    "lost", "gone", "degraded", "gained", "added", "restored", "changed", "moved",
    "relocated",
)  # fmt: skip


#: Columns of a difference; `moved` is in bundle-seconds.
HEADER: Final = (
    "id", "fate", "before", "after", "start before", "start after", "end before", "end after",
    "moved",
)  # fmt: skip

#: Those that 80 columns hold.
_NARROW: Final = ("id", "fate", "start before", "start after", "moved")


def difference_rows(
    difference: Mapping[str, Any], *, calendar: bool = False
) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return header and one row a request that differs between two Plans.

    Losses come first; those of one fate by the work they moved, most first, then in plan order.

    Parameters
    ----------
    calendar
        Times as instants if a server has an origin; else as seconds from the Plan's origin.
    """
    ordered = sorted(
        difference["requests"], key=lambda x: (_WORST_FIRST.index(x["fate"]), -x["moved"])
    )
    origin = difference.get("origin") if calendar else None
    zone = difference.get("zone", UTC_ZONE)
    rows: list[list[object]] = []
    for x in ordered:
        times: list[Any] = [*x["start"], *x["end"]]
        if origin is not None:
            times = [None if at is None else local_text(origin, at, zone) for at in times]
        rows.append([x["id"], x["fate"], x["before"], x["after"], *times, x["moved"]])
    return HEADER, rows


def print_differences(difference: Mapping[str, Any]) -> None:
    """Print how many met each fate, and the first of their rows as a table."""
    counts = difference["counts"].items()
    fates = [f"{count:,} {fate}" for fate, count in counts if count]
    click.echo(", ".join([*fates, f"{difference['same']:,} the same"]))
    header, rows = difference_rows(difference, calendar=True)
    if rows:
        told = difference.get("origin")
        times = "times in seconds from the origin"
        if told is not None:
            times = zone_line(difference.get("zone", UTC_ZONE))
        click.echo()
        print_title(f"{times}; moved: work with another place, in bundle-seconds")
        names = header if present_layout().wide else _NARROW
        places = [header.index(name) for name in names]
        print_table(names, [[row[place] for place in places] for row in rows[:_SHOWN]])
    if len(rows) > _SHOWN:
        click.echo(f"... and {len(rows) - _SHOWN:,} more")


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
        print_title("all requests of both Plans; `agenda plan` explains the metrics")
        print_table(("metric", "before", "after"), metrics)
        click.echo()
        print_differences(difference)
    return DIFFER if exit_code and difference["requests"] else DONE


def print_verdict(
    document: Mapping[str, Any], name: str, lines: Sequence[WorkloadLine] | None, form: str
) -> int:
    """Check a Plan, print the findings, and return the exit code.

    Parameters
    ----------
    name
        Source of the Plan.
    lines
        Requests that it must answer, or None.
    """
    from planner.validation.validate import validate

    asked = None if lines is None else [one.id for one in lines]
    violations = validate(document, asked=asked)
    if lines is not None:
        from planner.validation.validate import asked_violations

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
        click.echo(f"valid: {counted(count[0], 'reservation')}, {counted(count[1], 'refusal')}")
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
    """Return the requests; malformed lines were left out of the Plan, too."""
    from planner.files import FileError, cluster_from_json, read_workload
    from planner.files.errors import FileProblems
    from service.cli.workload_input import report_lines

    try:
        origin = cluster_from_json(document.get("cluster")).origin
    except FileError:
        origin = None  # the validator says what is wrong with the cluster
    bad = FileProblems()
    lines = list(read_workload(workload, origin, bad.append))
    report_lines(workload, bad)
    return lines


@click.command()
@click.argument("plan", type=READABLE, required=False)
@click.option("--audit", is_flag=True, help="Check the live Plan of a server, not a file.")
@click.option(
    "--workload",
    type=READABLE,
    help="Also check that each answer is to a request of this workload.",
)
@client_options
@format_option(TABLE, JSON)
@reports_errors
def validate(
    plan: Path | None, audit: bool, workload: Path | None, server: Server, form: str
) -> int:
    """Check PLAN independently: capacity, machines, expressions, policies, states and ids.

    Shares no code with the planner. Prints the first violation and exits with 1 if there is one;
    -o json prints all of them. Rules that cannot be checked are printed as doubts, and the
    Plan is valid.

    With --audit it checks the whole committed Plan of a server at one instant: this needs the
    role of an operator, and costs the server only a read.
    """
    if audit == (plan is not None):
        raise click.UsageError("give a PLAN file, or --audit for the Plan of a server")
    document = live_plan(server) if plan is None else read_object(plan)
    lines = None if workload is None else requests_of(workload, document)
    return print_verdict(document, str(plan or server.url), lines, form)


def live_plan(server: Server) -> dict[str, Any]:
    """Return a consistent snapshot of a server's whole Plan.

    Raises
    ------
    CliError
        If it does not answer, or not with a Plan.
    """
    document = server.call("GET", "/v1/plan/export").good()
    if not isinstance(document, dict) or "reservations" not in document:
        raise CliError(f"{server.url} returned no Plan; is it an Agenda server?")
    return document


#: What a line of a workload says of a request apart from its RDL, where the Plan knows it.
_KEPT: Final = (
    "id", "tenant", "queue", "submitted", "weight", "priority", "promise",
)  # fmt: skip


@click.command()
@click.argument("out", type=WRITABLE)
@click.option(
    "--workload",
    type=WRITABLE,
    help="Also write the requests, accepted and refused, to this file: JSON Lines for agenda plan "
    "and compare.",
)
@click.option(
    "--cluster", type=WRITABLE, help="Also write the cluster to this file: JSON for agenda plan."
)
@client_options
@reports_errors
def export(server: Server, out: Path, workload: Path | None, cluster: Path | None) -> int:
    """Write the server's whole Plan to OUT: a plan file for validate, optimize and plan-diff.

    The state of the Plan is that of one instant, past reservations and refusals included. With
    --workload and --cluster the same day can be planned again from files, by any agent.
    """
    from planner.files import PlanDocument, write_plan

    document = PlanDocument.from_json(server.call("GET", "/v1/plan/export").good(), server.url)
    with as_cli_error(str(out)):
        write_plan(document, out)
    if workload is not None:
        with as_cli_error(str(workload)):
            workload.write_text("".join(_lines(document)), encoding="utf-8")
    if cluster is not None:
        with as_cli_error(str(cluster)):
            cluster.write_text(json.dumps(document.cluster, indent=2) + "\n", encoding="utf-8")
    accepted, refused = len(document.reservations), len(document.refusals)
    click.echo(
        f"{out}: version {document.version}, {counted(accepted, 'reservation')}, "
        f"{counted(refused, 'refusal')}",
        err=True,
    )
    return DONE


def _lines(document: PlanDocument) -> Iterator[str]:
    """Yield a line of a workload for each request, in order of submission."""
    known = sorted(
        (*document.reservations, *document.refusals), key=lambda one: float(one["submitted"])
    )
    for one in known:
        line = {name: one[name] for name in _KEPT if name in one} | {"rdl": one["expression"]}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files, without an agent.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    document: dict[str, Any] = server.call("GET", "/v1/plan/export").good()
    return {**document, "metrics": document["metrics"] | {"runtime_ms": None}}

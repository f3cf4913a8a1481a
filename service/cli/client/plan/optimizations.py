"""`agenda optimizations start|list|show|stop|apply|undo|forget`: a server's Plan, made better."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from service.cli.client.completion import completing
from service.cli.client.server import Server, client_options, entry_path
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_rows, zone_line
from service.cli.plans.optimization_output import (
    goal_options,
    print_optimized,
    progress_text,
    read_weights,
)
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR
from service.cli.terminal.options import from_now
from service.cli.terminal.output import (
    CSV,
    JSON,
    TABLE,
    format_option,
    listing_options,
    print_csv,
    print_json,
    print_listing,
    print_table,
)
from service.cli.terminal.progress import CommandProgress, running

_PATH: Final = "/v1/optimizations"
_COLUMNS: Final = ("id", "state", "created_at", "value", "bound", "gap", "source", "reason")
_LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("bound", "source", "reason")) for name in _COLUMNS
)
_AT_WORK: Final = ("running", "stopping")

#: Most changes left out that are told one by one.
_TOLD: Final = 20

#: Seconds between two looks at one that runs.
_LOOK_S: Final = 0.5

_PARTIAL: Final = click.option(
    "--partial",
    is_flag=True,
    help="If not all of the result fits any more, apply the part that does.",
)
_ID: Final = click.argument("id_", metavar="ID", shell_complete=completing("optimization"))


@click.group()
def optimizations() -> None:
    """Look for a better Plan of a server, apply the result or drop it."""


@optimizations.command()
@click.option(
    "--time-limit",
    default="60s",
    show_default=True,
    help="Stop after this long and keep the best plan found; at most 1h.",
)
@click.option(
    "--frozen-until",
    callback=from_now,
    metavar="TIME",
    help="Nothing before this time moves.  [default: 5m after the time limit]",
)
@goal_options
@click.option(
    "--solver",
    type=click.Choice(("exact", "hybrid", "milp", "none")),
    help="Agent that proves a bound on the value.  [default: exact for up to 2,000 requests]",
)
@click.option("--apply", "apply_result", is_flag=True, help="Apply the result when it is found.")
@_PARTIAL
@click.option("--detach", is_flag=True, help="Print the id and do not wait for the result.")
@client_options
@format_option()
@reports_errors
def start(
    server: Server,
    time_limit: str,
    frozen_until: str | None,
    pins: tuple[str, ...],
    admit_refused: bool,
    weights: str | None,
    lexicographic: bool,
    work: int | None,
    seed: int,
    solver: str | None,
    apply_result: bool,
    partial: bool,
    detach: bool,
    form: str,
) -> int:
    """Look for a better Plan and show it; nothing changes until it is applied.

    The first ^C stops the search and shows the best plan found; the second leaves it running on the
    server.
    """
    if apply_result and detach:
        raise click.UsageError("--apply waits for the result; leave --detach out")
    if partial and not apply_result:
        raise click.UsageError("--partial goes with --apply")
    options = {
        "time_limit": time_limit, "frozen_until": frozen_until, "pins": list(pins),
        "admit_refused": admit_refused or None, "lexicographic": lexicographic or None,
        "weights": read_weights(weights, lexicographic=lexicographic) or None,
        "work": work, "seed": seed, "solver": solver,
    }  # fmt: skip
    body = {name: value for name, value in options.items() if value is not None}
    begun = server.call("POST", _PATH, body).good()
    if detach:
        return _print_optimization(begun, form)
    ended = _wait_for(server, begun)
    _print_optimization(ended, form)
    if ended["result"] is None or ended["result"]["conflict"] is not None:
        return ERROR
    return _apply(server, ended["id"], partial=partial) if apply_result else DONE


@optimizations.command("list")
@client_options
@listing_options()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List optimisations, newest first."""
    body = server.call("GET", _PATH).good()
    rows = [_row(one) for one in body["optimizations"]]
    title = f"{len(rows):,} optimisations; value and bound: weight x core-hours x preference"
    if form == TABLE:
        zone = server.zone()
        rows = local_rows(_COLUMNS, rows, ("created_at",), zone)
        title += f"; {zone_line(zone)}"
    print_listing(body, _LISTED, rows, form, "no optimisations", title)
    return DONE


@optimizations.command()
@_ID
@client_options
@format_option()
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show the progress of an optimisation, or its result."""
    return _print_optimization(server.call("GET", entry_path(_PATH, id_)).good(), form)


@optimizations.command()
@_ID
@client_options
@format_option()
@reports_errors
def stop(id_: str, server: Server, form: str) -> int:
    """Stop an optimisation and show the best plan it found."""
    stopping = server.call("POST", f"{entry_path(_PATH, id_)}/stop").good()
    return _print_optimization(_wait_for(server, stopping), form)


@optimizations.command()
@_ID
@_PARTIAL
@client_options
@reports_errors
def apply(id_: str, server: Server, partial: bool) -> int:
    """Apply the result of an optimisation to the Plan as it is by now.

    Applies all of it or nothing, unless --partial is given. If the optimisation still runs, it is
    stopped and the best plan it found is applied.
    """
    return _apply(server, id_, partial=partial)


@optimizations.command()
@_ID
@client_options
@reports_errors
def undo(id_: str, server: Server) -> int:
    """Take back what an applied optimisation changed, as far as nothing of it has begun.

    Reservations go back to what they held before, and those that it admitted are cancelled. What
    has begun or was changed since stays as it is and is listed. If the rest does not fit any more,
    nothing changes.
    """
    done = server.call("POST", f"{entry_path(_PATH, id_)}/undo").good()
    click.echo(f"version {done['version']} of the Plan: {_many(done)} taken back", err=True)
    _print_left(done["left"], "stay as they are")
    return DONE


@optimizations.command()
@_ID
@client_options
@reports_errors
def forget(id_: str, server: Server) -> int:
    """Delete an optimisation and its result; if it still runs, it is stopped."""
    server.call("DELETE", entry_path(_PATH, id_)).good()
    click.echo(f"{id_} is forgotten")
    return DONE


def _apply(server: Server, id_: str, *, partial: bool) -> int:
    query = "?partial=true" if partial else ""
    done = server.call("POST", f"{entry_path(_PATH, id_)}/apply{query}").good()
    merged = ", merged with what happened meanwhile" if done["merged"] else ""
    click.echo(
        f"version {done['version']} of the Plan holds it: {_many(done)} changed{merged}", err=True
    )
    _print_left(done["left_out"], "left out")
    return DONE


def _many(done: Mapping[str, Any]) -> str:
    return f"{done['changed']:,} reservation{'' if done['changed'] == 1 else 's'}"


def _print_left(left: Sequence[Mapping[str, Any]], what: str) -> None:
    """Tell one by one what was not done."""
    if left:
        click.echo(f"{len(left):,} {what}:", err=True)
    for one in left[:_TOLD]:
        click.echo(f"  {one['id']}: {one['detail']}", err=True)
    if len(left) > _TOLD:
        click.echo(f"  ... and {len(left) - _TOLD:,} more", err=True)


def _wait_for(server: Server, begun: Mapping[str, Any]) -> Any:
    """Wait until one is over, showing how far it is; ^C asks it to stop."""
    path, now, stopped = entry_path(_PATH, begun["id"]), begun, False
    with running("optimizing") as run:
        while now["state"] in _AT_WORK:
            if run.stop() and not stopped:
                server.call("POST", f"{path}/stop").good()
                stopped = True
            _show_progress(run, now)
            time.sleep(_LOOK_S)
            now = server.call("GET", path).good()
    return now


def _show_progress(run: CommandProgress, now: Mapping[str, Any]) -> None:
    done = now["progress"]
    if "value" in done:
        names = ("elapsed", "value", "bound", "gap", "source")
        run.say(progress_text(*(done[name] for name in names)))
    else:
        run.show()


def _row(one: Mapping[str, Any]) -> list[object]:
    known = {**one["progress"], **one}
    return [known.get(name) for name in _COLUMNS]


def _print_optimization(one: Mapping[str, Any], form: str) -> int:
    result = one["result"]
    if form == JSON:
        print_json(one)
    elif result is None or result["conflict"] is not None:
        _print_row(one, form)
    else:
        if form != CSV:
            reason = f": {one['reason']}" if one["reason"] else ""
            click.echo(f"{one['id']} {one['state']}{reason}\n")
        print_optimized(result, form)
    return DONE


def _print_row(one: Mapping[str, Any], form: str) -> None:
    (print_csv if form == CSV else print_table)(_COLUMNS, [_row(one)])

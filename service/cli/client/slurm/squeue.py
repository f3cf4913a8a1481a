"""`agenda squeue`: the jobs of a Slurm that Agenda has to do with, and what they were promised."""

from __future__ import annotations

from typing import Any, Final

import click

from service.cli.client.server import Server, client_options, entry_path
from service.cli.forms.layout import ListColumn
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import listing_options, print_listing

_COLUMNS: Final = (
    "job", "name", "user", "partition", "state", "nodes", "reservation", "promised", "begins",
    "ends", "reason",
)  # fmt: skip
_LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("partition", "reason")) for name in _COLUMNS
)


@click.command()
@client_options
@click.option("--user", help="Only jobs of this user.")
@listing_options()
@reports_errors
def squeue(server: Server, user: str | None, form: str) -> int:
    """List Slurm's jobs that run or wait under Agenda, with the reservations they are for."""
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.errors import SlurmError
    from dispatch.backends.slurm.control.job_names import words_of

    try:
        jobs = [job for job in SlurmCommands().jobs() if job.is_open]
    except SlurmError as error:
        raise CliError(str(error)) from error
    known: dict[str, dict[str, Any]] = {}
    entries: list[dict[str, Any]] = []
    for job in sorted(jobs, key=lambda one: one.id):
        words = words_of(job)
        if not words or (user is not None and job.user != user):
            continue
        id_ = words.get("reservation", "-")
        if id_ not in known:
            known[id_] = {} if id_ == "-" else _reservation(server, id_)
        promise = known[id_]
        entries.append(
            {
                "job": job.id,
                "name": job.name,
                "user": job.user,
                "partition": job.partition,
                "state": job.state.lower(),
                "nodes": ",".join(job.nodes or job.wanted_nodes),
                "reservation": None if id_ == "-" else id_,
                "promised": promise.get("state"),
                "begins": promise.get("begin_at"),
                "ends": promise.get("finish_at"),
                "reason": "" if job.is_up else job.reason,
            }
        )
    rows = [[entry[name] for name in _COLUMNS] for entry in entries]
    print_listing(entries, _LISTED, rows, form, "no jobs")
    return DONE


def _reservation(server: Server, id_: str) -> dict[str, Any]:
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    return reply.body if reply.ok and isinstance(reply.body, dict) else {}

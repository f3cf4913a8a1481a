"""`agenda sacct`: whether promises were kept, and what ran for them by Slurm's own accounting."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

import click

from service.cli.client.server import Server, client_options, entry_path
from service.cli.client.slurm.sbatch import window_end_s
from service.cli.forms.layout import ListColumn
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import duration
from service.cli.terminal.output import listing_options, print_listing

_COLUMNS: Final = (
    "reservation", "user", "promise", "work", "deadline", "begun", "ended", "jobs", "runs",
    "promised_s", "had_s",
)  # fmt: skip
#: What became of promises: `dispatch.accounts.promises.Outcome`, and those still open.
_OPEN, _UNKNOWN = "open", "unknown"
_PROMISES: Final = ("kept", "degraded", "unused", "failed", "cancelled", _OPEN, _UNKNOWN)
_LABELS: Final = {"promised_s": "promised, s", "had_s": "had, s"}
_LISTED: Final = tuple(
    ListColumn(name, _LABELS.get(name, ""), is_wide=name in ("user", "runs")) for name in _COLUMNS
)


@click.command()
@client_options
@click.option("--since", default="1d", show_default=True, metavar="DURATION",
              help="How far back.")  # fmt: skip
@click.option("--promise", "wanted", metavar="VERDICT",
              type=click.Choice(_PROMISES), help="Only those that were this.")  # fmt: skip
@listing_options()
@reports_errors
def sacct(server: Server, since: str, wanted: str | None, form: str) -> int:
    """List what became of promises, and of their work by Slurm's accounting.

    PROMISE is what the server says, as its page and /v1/promises do: kept, open (and kept so far),
    or lacking machines while they were due (degraded, unused, failed). WORK is what Slurm says: in
    time (all jobs ended well before the deadline), short (they had the node time that was promised
    and needed more), late (neither), or failed.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
    from dispatch.backends.slurm.control.errors import SlurmError
    from dispatch.backends.slurm.reserved.kept_promises import (
        deadline_of,
        promise_record,
        reservations_of,
    )

    now_s = int(time.time())
    begin = instant_word(now_s - duration(since) // 1000)
    try:
        found = reservations_of(SlurmCommands(timeout_s=60).accounted_runs(begin))
    except SlurmError as error:
        raise CliError(f"{error}; promises are read from slurmdbd") from error
    records = []
    for id_, runs in found.items():
        deadline_s = deadline_of(runs) or _planned_s(server, id_)
        records.append(promise_record(id_, runs, deadline_s, now_s))
    promises = promises_of(server) if records else {}
    records.sort(key=lambda one: (one.deadline_s or 0, one.reservation))
    entries: list[dict[str, Any]] = [
        {
            "reservation": one.reservation,
            "user": one.user,
            "promise": promises.get(one.reservation, _UNKNOWN),
            "work": str(one.verdict),
            "deadline": _instant(one.deadline_s),
            "begun": _instant(one.begun_s),
            "ended": _instant(one.ended_s),
            "jobs": one.jobs,
            "runs": one.runs,
            "promised_s": one.promised_s or None,
            "had_s": one.had_s,
        }
        for one in records
        if wanted in (None, promises.get(one.reservation, _UNKNOWN))
    ]
    rows = [[entry[name] for name in _COLUMNS] for entry in entries]
    print_listing(entries, _LISTED, rows, form, _NOTHING)
    counts = Counter(entry["promise"] for entry in entries)
    if entries:
        click.echo(", ".join(f"{counts[one]} {one}" for one in _PROMISES if counts[one]), err=True)
    return DONE


_NOTHING: Final = (
    "no promises; Slurm's accounting names them with AccountingStoreFlags=job_comment in slurm.conf"
)


def _planned_s(server: Server, id_: str) -> int | None:
    """Return the end of the window that the server knows of a reservation, as Unix time."""
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    return window_end_s(reply.body) if reply.ok and isinstance(reply.body, dict) else None


def promises_of(server: Server) -> dict[str, str]:
    """Return what became of each reservation, as the server's ledger has it."""
    told = server.call("GET", "/v1/promises", query={"each": "true"}).good()
    return {
        one["id"]: _OPEN if one["promise"] == "kept" and not one["is_over"] else one["promise"]
        for one in told["reservations"]
    }


def _instant(unix_s: int | None) -> str | None:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unix_s else None

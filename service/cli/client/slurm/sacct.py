"""`agenda sacct`: whether promises were kept, by Slurm's own accounting."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
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
    "reservation", "user", "promise", "deadline", "begun", "ended", "jobs", "runs", "promised_s",
    "had_s",
)  # fmt: skip
#: Verdicts; `dispatch.backends.slurm.reserved.kept_promises` has the same.
_WORDS: Final = "kept, short, late, unused, failed, open or unknown"
_LABELS: Final = {"promised_s": "promised, s", "had_s": "had, s"}
_LISTED: Final = tuple(
    ListColumn(name, _LABELS.get(name, ""), is_wide=name in ("user", "runs")) for name in _COLUMNS
)


@click.command()
@client_options
@click.option("--since", default="1d", show_default=True, metavar="DURATION",
              help="How far back.")  # fmt: skip
@click.option("--promise", "wanted", metavar="VERDICT",
              help=f"Only those that were one of: {_WORDS}.")  # fmt: skip
@listing_options()
@reports_errors
def sacct(server: Server, since: str, wanted: str | None, form: str) -> int:
    """List what became of promises: the begin, end and node time that Slurm's accounting has.

    kept: all jobs ended well before the deadline. short: they had the node time that was promised
    and needed more. late: neither. unused: late, and its reservation passed while it waited.
    failed: a job failed or was cancelled.
    The server is asked for deadlines that no job says: those of components.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
    from dispatch.backends.slurm.control.errors import SlurmError
    from dispatch.backends.slurm.reserved.kept_promises import (
        Verdict,
        deadline_of,
        promise_record,
        reservations_of,
    )

    if wanted is not None and wanted not in set(Verdict):
        raise CliError(f"--promise {wanted}: write one of {', '.join(Verdict)}")
    now_s = int(time.time())
    begin = instant_word(now_s - duration(since) // 1000)
    try:
        found = reservations_of(SlurmCommands(timeout_s=60).accounted_runs(begin))
    except SlurmError as error:
        raise CliError(f"{error}; promises are read from slurmdbd") from error
    records = []
    for id_, runs in found.items():
        record = promise_record(id_, runs, deadline_of(runs) or _planned_s(server, id_), now_s)
        if record.verdict is Verdict.LATE and _passed_unused(server, id_):
            record = replace(record, verdict=Verdict.UNUSED)
        records.append(record)
    records.sort(key=lambda one: (one.deadline_s or 0, one.reservation))
    entries: list[dict[str, Any]] = [
        {
            "reservation": one.reservation,
            "user": one.user,
            "promise": str(one.verdict),
            "deadline": _instant(one.deadline_s),
            "begun": _instant(one.begun_s),
            "ended": _instant(one.ended_s),
            "jobs": one.jobs,
            "runs": one.runs,
            "promised_s": one.promised_s or None,
            "had_s": one.had_s,
        }
        for one in records
        if wanted in (None, str(one.verdict))
    ]
    rows = [[entry[name] for name in _COLUMNS] for entry in entries]
    print_listing(entries, _LISTED, rows, form, _NOTHING)
    counts = Counter(entry["promise"] for entry in entries)
    if entries:
        click.echo(", ".join(f"{counts[one]} {one}" for one in Verdict if counts[one]), err=True)
    return DONE


_NOTHING: Final = (
    "no promises; Slurm's accounting names them with AccountingStoreFlags=job_comment in slurm.conf"
)


def _planned_s(server: Server, id_: str) -> int | None:
    """Return the end of the window that the server knows of a reservation, as Unix time."""
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    return window_end_s(reply.body) if reply.ok and isinstance(reply.body, dict) else None


def _passed_unused(server: Server, id_: str) -> bool:
    """Return whether the server reported that time of a reservation passed unused."""
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    if not reply.ok or not isinstance(reply.body, dict):
        return False
    return any(entry["what"] == "unused" for entry in reply.body.get("history", ()))


def _instant(unix_s: int | None) -> str | None:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unix_s else None

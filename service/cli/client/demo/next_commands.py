"""The next three commands to try, as they run in the shell that ran the demo."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import Final

from agenda.connection import DEFAULT_URL

#: A request of the reader's own: an hour of ten cores, whenever there is room before evening.
_REQUEST: Final = (
    "window(atom(<1 cpu, 2 GiB memory>, min=1, max=10, lease=10m, work=10h), +0, +8h)\n"
)


def next_commands(folder: Path, server: str | None) -> str:
    """Return the next three commands, with what each shows.

    Parameters
    ----------
    folder
        The demo's; a request of one's own is written into it.
    server
        Where it is served; None where the server has ended.
    """
    agenda = _agenda()
    if server is None:
        cluster, workload = (
            quote(str(folder / "cluster.toml")),
            quote(str(folder / "workload.jsonl")),
        )
        plan = quote(str(folder / "plan.json"))
        lines = [
            ("the same once more, and the server stays", f"{agenda} demo"),
            ("the same day planned from files", f"{agenda} plan {cluster} {workload} --out {plan}"),
            ("that plan, checked by other code", f"{agenda} validate {plan}"),
        ]
    else:
        request = folder / "mine.rdl"
        request.write_text(_REQUEST, encoding="utf-8")
        at = "" if server == DEFAULT_URL else f" --server {server}"
        lines = [
            ("ask for something yourself",
             f"{agenda} submit {quote(str(request))} --id mine --queue batch{at}"),
            ("why it stands where it does", f"{agenda} reservations show mine{at}"),
            ("who would be hit if four machines went",
             f"{agenda} outages add standard --count 4 --end +2h --dry-run{at}"),
        ]  # fmt: skip
    return "next, in another shell:\n" + "\n".join(
        f"  # {said}\n  {command}" for said, command in lines
    )


def _agenda() -> str:
    """Return how this shell calls this `agenda`."""
    here = Path(sys.argv[0])
    if here.name != "agenda":
        return f"{quote(sys.executable)} -m service.cli.main"
    found = shutil.which("agenda")
    if found is not None and Path(found).resolve() == here.resolve():
        return "agenda"
    near = here.absolute()
    return quote(
        str(near.relative_to(Path.cwd())) if near.is_relative_to(Path.cwd()) else str(near)
    )

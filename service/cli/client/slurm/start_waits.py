"""How long promised jobs waited in Slurm for their start, and requests that allow for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dispatch.backends.slurm.control.errors import SlurmError

if TYPE_CHECKING:
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.records import SlurmJob
    from dispatch.entitlements.start_delay import StartDelayTable

#: How far back Slurm's accounting is read, as sacct says it.
_SINCE = "now-7days"


def learnt_delays(commands: SlurmCommands, user: str) -> StartDelayTable:
    """Return the delays of a user's jobs in Slurm's accounting; none where it says nothing.

    A job that was bound to its reservation may begin with it: what passed until it did is the
    time that Slurm took to find room and to push others aside.
    """
    from dispatch.entitlements.start_delay import NO_DELAY

    try:
        return delays_of(commands.ended_jobs(user, _SINCE))
    except SlurmError:
        return NO_DELAY


def delays_of(runs: Iterable[SlurmJob]) -> StartDelayTable:
    """Return the delays of promised jobs of people by the size of a node's share."""
    from dispatch.backends.slurm.control.job_names import words_of
    from dispatch.entitlements.start_delay import StartDelays
    from rdl.resources import Resources

    delays = StartDelays()
    for run in sorted(runs, key=lambda one: one.started_s):
        is_promised = "deadline" in words_of(run)
        if is_promised and run.nodes and 0 < run.eligible_s <= run.started_s:
            size = Resources.of({"cpu": 1000 * run.cpus // len(run.nodes)})
            delays.observe(size, 1000 * (run.started_s - run.eligible_s))
    return delays.table()


def enlarged(request: str, cpus: int, table: StartDelayTable) -> tuple[str, int]:
    """Return a request in RDL, longer by the delay of bundles of so many CPUs, and it in ms."""
    from dispatch.entitlements.start_delay import StartDelayTable, enlarge
    from rdl.resources import Resources
    from rdl.text.formatter import format_expression
    from rdl.text.parser import parse

    delay_ms = table.delay_ms(Resources.of({"cpu": 1000 * cpus}))
    if not delay_ms:
        return request, 0
    expression = parse(request)
    # Whatever resource says the size of the request's bundle, the delay is that of its CPUs.
    everywhere = StartDelayTable({("cpu", 0): delay_ms, ("memory", 0): delay_ms})
    return format_expression(enlarge(expression, everywhere)), delay_ms

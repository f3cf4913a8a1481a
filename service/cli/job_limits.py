"""Find a start for a job that Slurm's limits of its account and QOS allow next to promised work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from dispatch.backends.slurm.control.amounts import tres_of
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_demand import JobDemand
from dispatch.backends.slurm.control.job_limits import JobLimit, Load, limits_of
from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.kit.errors import CliError
from service.cli.kit.server import Server, ServerReply, entry_path

#: The most starts that are tried.
_TRIES: Final = 10


#: A limit, and the components of a job that count together for it.
Limited = tuple[JobLimit, Sequence[JobDemand]]


def known_limits(user: str, demands: Sequence[JobDemand], seconds: int) -> list[Limited]:
    """Return the limits of concurrent jobs that apply to a job, given as its components.

    Components of one account count together, though the QOS of some overrides the account's limit.

    Raises
    ------
    CliError
        If a limit lets Slurm never start the job, or if the limits are unknown.
    """
    try:
        limits = [
            limits_of(SlurmCommands(), user, demand.account, demand.qos, demand.partition)
            for demand in demands
        ]
    except SlurmError as error:
        raise CliError(f"limits of accounts and QOS are not known: {error}") from error
    found: list[Limited] = []
    problems: list[str] = []
    for demand, own in zip(demands, limits, strict=True):
        for limit in own:
            counted = [
                other
                for other, theirs in zip(demands, limits, strict=True)
                if any(one.name == limit.name for one in theirs)
            ]
            problems += limit.problems(demand, counted, seconds)
            if (limit.jobs is not None or limit.together) and (limit, counted) not in found:
                found.append((limit, counted))
    if problems:
        raise CliError("; ".join(dict.fromkeys(problems)))
    return found


def ask_within(
    limits: Sequence[Limited],
    others: Callable[[], Sequence[SlurmJob]],
    server: Server,
    ask: Callable[[int, bool], ServerReply],
) -> tuple[int, ServerReply]:
    """Return a start that no limit forbids, and the server's answer to the dry run with it.

    If the limits allow no more than the work promised at that time, a later start is tried: the
    first end of that work.

    Parameters
    ----------
    others
        Returns the jobs that Slurm has.
    ask
        Requests the job, not before a Unix time (0: now); True for a dry run.

    Raises
    ------
    CliError
        If no start is found; the message names the limit.
    """
    begin_s, why = 0, ""
    for _ in range(_TRIES):
        reply = ask(begin_s, True)
        if not reply.ok or not limits:
            if why and not reply.ok:
                raise CliError(f"{why}, and later: {reply.problem()}")
            return begin_s, reply
        first_s, last_s = _span(reply.body)
        loads = list(_loads(server, others(), first_s, last_s))
        tries = (limit.in_the_way(demands, loads) for limit, demands in limits)
        found = next((one for one in tries if one is not None), None)
        if found is None:
            return begin_s, reply
        why, mine = found
        later_s = min((load.until_s for load in mine if load.until_s > first_s), default=0)
        if later_s <= begin_s:
            break
        begin_s = later_s
    raise CliError(f"{why}: no time is left for this job alongside those that are promised")


def _span(body: dict[str, Any]) -> tuple[float, float]:
    """Return start and end of a reservation, Unix time."""
    begin, finish = (datetime.fromisoformat(body[name]) for name in ("begin_at", "finish_at"))
    return begin.timestamp(), finish.timestamp()


def _loads(
    server: Server, others: Sequence[SlurmJob], first_s: float, last_s: float
) -> Iterator[Load]:
    """Yield the jobs that run or have reservations between two instants."""
    running = Counter(job.array for job in others if job.is_up and job.array)
    for job in others:
        if not job.is_open:
            continue
        times = 1
        id_ = words_of(job).get("reservation", "-")
        begin_s, end_s = float(job.started_s), float(job.ends_s or 2**62)
        if not job.is_up:
            if id_ == "-":
                continue  # its start is unknown
            reply = server.call("GET", entry_path("/v1/reservations", id_))
            if not reply.ok or not reply.body.get("finish_at"):
                continue
            begin_s, end_s = _span(reply.body)
            times = job.tasks
            if job.throttle:
                times = min(times, max(0, job.throttle - running[job.array]))
        if begin_s < last_s and end_s > first_s:
            amounts = {name: times * amount for name, amount in tres_of(job.tres).items()}
            until_s = -int(-end_s // 1)
            yield Load(job.id, job.user, job.account, job.qos, until_s, amounts, times)

"""Take machines away and give them back, and answer which reservations are affected.

Outages are part of the cluster's description, so they are durable as that is, and `PUT /v1/cluster`
shows them too. The machines of an outage are chosen when it is taken, and its id is made then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from planner.adaptation.adapter import adapt
from planner.adaptation.drain import drained_from, least_held
from planner.cluster.cluster import Cluster, Outage
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.cluster_writer import machine_names
from planner.plan.plan import Plan
from rdl.durations import rfc3339_text
from rdl.time_grid import seconds_of
from service.calls.cluster.cluster import present_cluster, present_version
from service.calls.cluster.left_machines import was_left
from service.commits.changes.commands import (
    ClusterAnswer,
    Reconfiguration,
)
from service.planning.adaptation import EFFORT
from service.problems import ApiError, ApiProblemError, ProblemDocument, malformed_problem, problem
from service.replication.cluster_trial import too_costly
from service.runtime import Runtime

#: How long a call takes at most: then it answers what is known of who is affected.
ANSWER_S: Final = 2.5

#: How often the description is read again because somebody else changed it meanwhile.
_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class OutageAnswer:
    """The answer to an outage that was added or taken back.

    Attributes
    ----------
    outage
        As it stands now; None where nothing of it is left.
    summary
        Which reservations are affected, as `Adaptation.to_json` writes it.
    version
        Version of the Plan that shows it so.
    pending
        Whether the repair goes on, so that more may be affected.
    """

    outage: Outage | None
    summary: Mapping[str, Any]
    version: int
    origin: datetime | None = None
    pending: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        shown = None if self.outage is None else outage_to_json(self.outage, self.origin)
        told = {"version": self.version, "outage": shown, "pending": self.pending}
        return {**told, **self.summary}


def outage_to_json(
    outage: Outage, origin: datetime | None, absent: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Return an outage with the names of its machines, those apart that are absent now."""
    entry: dict[str, Any] = {
        "id": outage.id,
        "kind": outage.kind,
        "machines": outage.machines,
        "names": machine_names(outage, outage.indices),
        "start": seconds_of(outage.start_ms),
        "end": seconds_of(outage.end_ms),
    }
    if absent:
        entry["absent"] = machine_names(outage, absent)
    if origin is not None:
        entry["start_at"] = rfc3339_text(origin + timedelta(milliseconds=outage.start_ms))
        entry["end_at"] = rfc3339_text(origin + timedelta(milliseconds=outage.end_ms))
    return entry


def list_outages(runtime: Runtime) -> dict[str, Any]:
    """Return the outages that are not over, earliest first."""
    with runtime.reading() as plan:
        cluster, version = plan.cluster, plan.version
    now_ms = runtime.now_ms()
    known = [one for one in cluster.described_outages() if one[0].end_ms > now_ms]
    known.sort(key=lambda one: _by_time(one[0]))
    shown = [outage_to_json(one, cluster.origin, absent) for one, absent in known]
    return {"version": version, "outages": shown}


def _by_time(outage: Outage) -> tuple[int, int, str, tuple[int, ...]]:
    return outage.start_ms, outage.end_ms, outage.machines, outage.indices


def add(runtime: Runtime, asked: Mapping[str, Any], *, dry_run: bool) -> OutageAnswer:
    """Take machines away, and answer which reservations are affected.

    Parameters
    ----------
    asked
        Fields of `service.api.views.cluster.outages.OUTAGE`.
    dry_run
        Say who would be; nothing is changed.

    Raises
    ------
    ApiProblemError
        ``malformed`` for machines that there are not, or times that cannot be.
    """
    until = time.monotonic() + ANSWER_S
    for _ in range(_ROUNDS):
        present, tag = present_cluster(runtime)
        outage = _outage_of(runtime, present, asked)
        if outage.kind == "drain" or dry_run:
            twin = twin_at_now(runtime)
            by_count = asked["count"] is not None
            outage = _drain(twin, present, outage, by_count=by_count)
        wanted = replace(present, outages=(*present.outages, outage))
        if dry_run:
            refused = too_costly(twin, wanted)
            if refused is not None:
                raise ApiProblemError(refused)
            return _would(runtime, twin, wanted, outage)
        known = next((one for one in present.outages if one == outage), None)
        if known is None:
            version = _reconfigure(runtime, wanted, tag)
        else:
            outage, version = known, present_version(runtime)
        if version is not None:
            return _adapt(runtime, outage, version, until)
    raise problem("conflict", "the cluster's description changes again and again; try later")


def twin_at_now(runtime: Runtime) -> Plan:
    """Return a copy of the Plan, brought to the clock's step as a change would bring it."""
    with runtime.reading() as plan:
        twin = plan.copy()
    now_step = runtime.now_ms() // twin.grid.step_ms
    twin.advance_to(now_step, now_step + twin.cluster.horizon_ms // twin.grid.step_ms)
    return twin


def _drain(twin: Plan, present: Cluster, outage: Outage, *, by_count: bool) -> Outage:
    """Let a drain wait for the leases in force; one by count takes machines with least to move."""
    if outage.kind != "drain":
        return outage
    if by_count:
        outage = least_held(twin, present, outage)
    start = twin.grid.ms(drained_from(twin, present, outage))
    if start >= outage.end_ms:
        detail = "leases in force last until the end of the drain; give it a later end"
        raise malformed_problem([ApiError(detail, pointer="/end")])
    return replace(outage, start_ms=max(start, outage.start_ms))


def take_back(runtime: Runtime, id_: str) -> OutageAnswer:
    """Give machines back: what has not begun is forgotten, what has ends now.

    One that work has left in this very step lasts until the end of the step: it says why that work
    goes on elsewhere.

    Raises
    ------
    ApiProblemError
        ``not_found`` for one that there is not, or that is over.
    """
    until = time.monotonic() + ANSWER_S
    for _ in range(_ROUNDS):
        present, tag = present_cluster(runtime)
        step_ms = present.step_ms
        now_ms = runtime.now_ms() // step_ms * step_ms
        known = {one.id: one for one, _ in present.described_outages()}
        outage = known.get(id_)
        if outage is None or outage.end_ms <= now_ms:
            raise problem("not_found", f"there is no outage {id_!r}, or it is over")
        ended = None
        if outage.start_ms < now_ms:
            ended = replace(outage, end_ms=now_ms)
        elif outage.start_ms < now_ms + step_ms:
            with runtime.reading() as plan:
                left_behind = was_left(plan, outage, now_ms // step_ms)
            ended = replace(outage, end_ms=now_ms + step_ms) if left_behind else None
        if ended is not None and not ended.indices:
            ended = None
        others = tuple(one for one in present.outages if one.id != id_)
        wanted = replace(
            present,
            outages=others if ended is None else (*others, ended),
            absent=tuple(one for one in present.absent if one.id != id_),
        )
        version = _reconfigure(runtime, wanted, tag)
        if version is not None:
            return _adapt(runtime, ended, version, until)
    raise problem("conflict", "the cluster's description changes again and again; try later")


def _outage_of(runtime: Runtime, cluster: Cluster, asked: Mapping[str, Any]) -> Outage:
    """Return the outage that is asked for, read as cluster files are."""
    step_ms = cluster.step_ms
    now_ms = max(0, runtime.now_ms() // step_ms * step_ms)  # the Plan may begin in the future
    start, end = runtime.resolve(asked["start"]), runtime.resolve(asked["end"])
    start = now_ms if start is None else start
    assert end is not None
    if start < now_ms:
        error = ApiError(
            "machines cannot go before now", pointer="/start", fix="leave start out for now"
        )
        raise malformed_problem([error])
    if end <= start:
        error = ApiError(
            "machines must be back after they go", pointer="/end", fix="write +2h for two hours"
        )
        raise malformed_problem([error])
    entry: dict[str, Any] = {"start": seconds_of(start), "end": seconds_of(end)}
    entry |= {name: asked[name] for name in ("machines", "count", "names", "kind")}
    entry = {name: value for name, value in entry.items() if value is not None}
    document = cluster_to_json(replace(cluster, outages=(), absent=())) | {"outages": [entry]}
    try:
        found = cluster_from_json(document, "the outage").outages[0]
        return replace(found, id=runtime.new_id("o"))
    except FileError as error:
        raise malformed_problem(
            [
                ApiError(one.message, pointer=_inside(one.pointer), fix=one.fix)
                for one in error.problems
            ]
        ) from error


def _inside(pointer: str | None) -> str:
    return (pointer or "").removeprefix("/outages/0").rstrip("/")


def _would(runtime: Runtime, twin: Plan, wanted: Cluster, outage: Outage) -> OutageAnswer:
    """Return what the adapter would do on a copy of the Plan."""
    found = adapt(twin, EFFORT, wanted)
    return OutageAnswer(outage, found.to_json(), present_version(runtime), wanted.origin)


def _reconfigure(runtime: Runtime, wanted: Cluster, tag: str) -> int | None:
    """Return the version that changes the description; None where it is no longer that of `tag`."""
    answer = runtime.planner.change(Reconfiguration(wanted, tag))[0]
    if isinstance(answer, ClusterAnswer):
        return answer.version
    assert isinstance(answer, ProblemDocument)
    if answer.code == "stale_revision":
        return None
    raise ApiProblemError(answer)


def _adapt(runtime: Runtime, outage: Outage | None, since: int, until: float) -> OutageAnswer:
    """Return who is affected, as far as it is known at an instant of the steady clock."""
    answer = runtime.planner.repair(since, max(0.0, until - time.monotonic()))
    origin = present_cluster(runtime)[0].origin
    return OutageAnswer(outage, answer.summary, answer.version, origin, answer.pending)

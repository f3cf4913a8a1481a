"""Outages: machines are lost, drained or maintained, and come back.

Outages are part of the cluster's description, so they are durable as that is, and `PUT /v1/cluster`
shows them too. The machines of an outage are chosen when it is taken, and its id is made then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from planner.adaptation.adapter import adapt
from planner.adaptation.drain import drained_from, least_held
from planner.cluster.cluster import DAY_MS, OUTAGE_KINDS, RESERVED, SPARE, Cluster, Outage
from planner.cluster.policy import DAYS
from planner.cluster.recurrence import Recurrence
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.cluster_writer import machine_names, recurrence_json
from planner.placement import Code
from planner.plan.plan import Plan
from rdl.durations import rfc3339_text
from rdl.time_grid import seconds_of
from service.access.actor import present_actor
from service.access.user import Role
from service.commits.adaptation import EFFORT
from service.commits.cluster_changes import UNPLANNABLE, too_costly
from service.commits.commands import ClusterAnswer, Reconfiguration
from service.http.kinds import BodyTime, Flag, MemberKind, array, choice, integer, text
from service.http.kit import Answer, Calls, Input, doc
from service.http.route import links_from
from service.problems import (
    ApiError,
    ApiProblemError,
    FieldError,
    ProblemDocument,
    malformed_problem,
    problem,
)
from service.resources.cluster import present_cluster, present_version, was_left
from service.response import Response
from service.runtime import Runtime

#: How long a call takes at most: then it answers what is known of who is affected.
ANSWER_S: Final = 2.5

#: Characters of a reason, at most.
_LONGEST_REASON: Final = 200

#: How far ahead the next occurrence of an outage that recurs is looked for, at least.
_LOOK_AHEAD_MS: Final = 400 * DAY_MS

#: How often the description is read again because somebody else changed it meanwhile.
_ROUNDS: Final = 5


def _read_names(value: object) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise FieldError("write an array of machine names")
    return value


_KINDS: Final = tuple(kind for kind in OUTAGE_KINDS if kind not in (RESERVED, SPARE))
_GROUP: Final = text()


class OutageRequest(Input, kw_only=True):
    kind: Annotated[
        str | None,
        choice(_KINDS),
        doc(
            "loss: gone now; drain: gone once leases in force are over; maintenance: known ahead. "
            "Without it maintenance if it recurs, else a loss."
        ),
    ] = None
    machines: Annotated[
        str,
        MemberKind({**_GROUP.schema, "examples": ["plain"]}, _GROUP.read),
        doc("The machine group."),
    ]
    count: Annotated[
        int | None,
        integer(1, 10**9),
        doc("How many: the highest numbers; of a drain those with least to move."),
    ] = None
    names: Annotated[
        list[str] | None,
        MemberKind({"type": "array", "items": {"type": "string"}, "minItems": 1}, _read_names),
        doc("Which, by name, instead of a count."),
    ] = None
    start: Annotated[BodyTime | None, doc("When they go; now when absent.")] = None
    end: Annotated[BodyTime, doc("When they are expected back.")]
    reason: Annotated[
        str | None, text(_LONGEST_REASON), doc("Why, for people: refusals and lists show it.")
    ] = None
    every: Annotated[
        str | None,
        text(16),
        doc("It recurs, each so many whole days or months: 1d, 1w, 1mo. Maintenance only."),
    ] = None
    until: Annotated[BodyTime | None, doc("No occurrence lasts beyond it; endless without.")] = None
    zone: Annotated[
        str | None, text(64), doc("Of the clock by which it recurs; without it the cluster's.")
    ] = None
    days: Annotated[
        tuple[str, ...] | None,
        array(choice(DAYS), 1, 7, "write an array of days such as mon"),
        doc("Weekdays on which an occurrence may start, with `every` 1d."),
    ] = None
    day: Annotated[
        str | None,
        text(16),
        doc("With `every` 1mo, the day of the month: 31, last, first tue, last fri."),
    ] = None
    except_: Annotated[
        tuple[str, ...] | None,
        array(text(24), 1, 366, "write an array of dates such as 2026-12-25"),
        doc("Dates on which no occurrence starts; two dates with .. between are a range."),
    ] = None


class OutageAnswer(Answer):
    version: Annotated[int, doc("Version of the Plan that shows this.")]
    outage: Annotated[
        dict[str, Any] | None, doc("The outage as it is now; null when it was taken back.")
    ]
    pending: Annotated[
        bool,
        doc(
            "Whether the repair goes on, so that more reservations may be affected: events and the "
            "list of reservations show them soon."
        ),
    ]
    affected: Annotated[
        list[dict[str, Any]],
        doc("Reservations degraded, failed, moved, restored or relocated, in order."),
    ]
    dropped: Annotated[float, doc("Value of the reservations that are degraded.")]
    moved: Annotated[float, doc("Work moved in time, in steps of the whole cluster.")]
    relocated: Annotated[
        float, doc("Work on other machines at the same times, in steps of the cluster.")
    ]
    short: Annotated[str, doc("What the machines still lack after the repair; empty when nothing.")]


class OutageList(Answer):
    version: int
    outages: list[dict[str, Any]]


calls = Calls()


@calls.post(
    "/v1/cluster/outages",
    "The machines are away; promises on them are moved or degraded.",
    status=201,
    also={200: "Dry run: the reservations that would be affected."},
    fails=(Code.MALFORMED, Code.CONFLICT, UNPLANNABLE),
    links=links_from("$response.body#/outage/id", "endOutage"),
    examples={"one machine for two hours": {"machines": "plain", "count": 1, "end": "+2h"}},
    role=Role.OPERATOR,
)
def add_outage(
    runtime: Runtime,
    body: OutageRequest,
    *,
    dry_run: Annotated[Flag, doc("Say who would be affected; change nothing.")] = False,
) -> Annotated[Response, OutageAnswer]:
    """Take machines away; the answer lists the reservations that are affected."""
    until = time.monotonic() + ANSWER_S
    for _ in range(_ROUNDS):
        present, tag = present_cluster(runtime)
        outage = _outage_of(runtime, present, body)
        if outage.kind == "drain" or dry_run:
            twin = twin_at_now(runtime)
            outage = _drain(twin, present, outage, by_count=body.count is not None)
        wanted = replace(present, outages=(*present.outages, outage))
        if dry_run:
            refused = too_costly(twin, wanted)
            if refused is not None:
                raise ApiProblemError(refused)
            return Response(200, _would(runtime, twin, wanted, outage))
        known = next((one for one in present.outages if one == outage), None)
        if known is None:
            version = _reconfigure(runtime, wanted, tag)
        else:
            outage, version = known, present_version(runtime)
        if version is not None:
            return Response(201, _adapt(runtime, outage, version, until))
    raise problem("conflict", "the cluster's description changes again and again; try later")


@calls.get("/v1/cluster/outages", "The outages.")
def list_outages(runtime: Runtime) -> OutageList:
    """Outages that are not over, earliest first."""
    with runtime.reading() as plan:
        cluster, version, ahead_ms = plan.cluster, plan.version, plan.grid.horizon_ms
    now_ms = runtime.now_ms()
    known = [one for one in cluster.described_outages() if one[0].over_ms > now_ms]
    shown = [_outage_to_json(one, cluster, now_ms, ahead_ms, absent) for one, absent in known]
    shown.sort(key=lambda one: (one["start"], one["end"], one["machines"], one["names"]))
    return OutageList(version=version, outages=shown)


@calls.delete(
    "/v1/cluster/outages/{id}",
    "The machines are back.",
    fails=("not_found", Code.CONFLICT, UNPLANNABLE),
    role=Role.OPERATOR,
)
def end_outage(runtime: Runtime, id_: str) -> OutageAnswer:
    """Give machines back; what was degraded without them is restored where it fits.

    What has not begun is forgotten, what has ends now. One that work has left in this very step
    lasts until the end of the step: it says why that work goes on elsewhere.
    """
    until = time.monotonic() + ANSWER_S
    for _ in range(_ROUNDS):
        present, tag = present_cluster(runtime)
        step_ms = present.step_ms
        now_ms = runtime.now_ms() // step_ms * step_ms
        known = {one.id: one for one, _ in present.described_outages()}
        outage = known.get(id_)
        if outage is None or outage.over_ms <= now_ms:
            raise problem("not_found", f"there is no outage {id_!r}, or it is over")
        near = present.outages_between(now_ms, now_ms + step_ms)
        begins = [
            one for one in near if one.id == id_ and now_ms <= one.start_ms < now_ms + step_ms
        ]
        last_ms = now_ms
        with runtime.reading() as plan:
            if any(was_left(plan, one, now_ms // step_ms) for one in begins):
                last_ms += step_ms
        ended = _ended(outage, last_ms)
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


def _ended(outage: Outage, at_ms: int) -> Outage | None:
    """Return an outage that ends at an instant; None if nothing of it is left."""
    if outage.start_ms >= at_ms or not outage.indices:
        return None
    if outage.recurs is None:
        return replace(outage, end_ms=at_ms)
    return replace(outage, recurs=replace(outage.recurs, until_ms=at_ms))


def _outage_to_json(
    outage: Outage,
    cluster: Cluster,
    now_ms: int,
    ahead_ms: int,
    absent: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Return an outage with the names of its machines, those apart that are absent now.

    One that recurs has the times of its present or next occurrence, and lists the occurrences
    that are not over and start before `ahead_ms`.
    """
    rule = outage.recurs
    ahead: list[tuple[int, int]] = []
    if rule is not None:
        first = outage.start_ms, outage.end_ms
        ahead = list(rule.spans(first, cluster.origin, now_ms, ahead_ms))
        later = rule.spans(first, cluster.origin, now_ms, max(now_ms, first[0]) + _look_ahead(rule))
        start_ms, end_ms = next(iter(ahead or later), first)
        outage = replace(outage, start_ms=start_ms, end_ms=end_ms)
    entry: dict[str, Any] = {
        "id": outage.id,
        "kind": outage.kind,
        "machines": outage.machines,
        "names": machine_names(outage, outage.indices),
        "start": seconds_of(outage.start_ms),
        "end": seconds_of(outage.end_ms),
    }
    entry |= {key: word for key, word in (("reason", outage.reason), ("by", outage.by)) if word}
    if absent:
        entry["absent"] = machine_names(outage, absent)
    if rule is not None:
        entry |= recurrence_json(rule)
        entry["occurrences"] = [_span_json(one, cluster.origin) for one in ahead]
    return entry | _span_json((outage.start_ms, outage.end_ms), cluster.origin)


def _look_ahead(rule: Recurrence) -> int:
    """Return how many ms from its last start the next occurrence is looked for.

    It is two periods at least, and more than a year: some dates of each may not count.
    """
    return max(_LOOK_AHEAD_MS, 2 * (rule.days or 31 * rule.months) * DAY_MS)


def _span_json(span: tuple[int, int], origin: datetime | None) -> dict[str, Any]:
    """Return from when to when in seconds from the origin, and as instants where there is one."""
    times = dict(zip(("start", "end"), map(seconds_of, span), strict=True))
    if origin is None:
        return times
    return times | {
        f"{name}_at": rfc3339_text(origin + timedelta(milliseconds=ms))
        for name, ms in zip(("start", "end"), span, strict=True)
    }


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


def _outage_of(runtime: Runtime, cluster: Cluster, asked: OutageRequest) -> Outage:
    """Return the outage that is asked for, read as cluster files are."""
    step_ms = cluster.step_ms
    now_ms = max(0, runtime.now_ms() // step_ms * step_ms)  # the Plan may begin in the future
    start, end = runtime.resolve(asked.start), runtime.resolve(asked.end)
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
    entry["by"] = present_actor().user.name
    if asked.reason:
        entry["reason"] = asked.reason
    usual = _KINDS[0] if asked.every else "loss"
    entry |= {"machines": asked.machines, "kind": asked.kind or usual}
    until = runtime.resolve(asked.until)
    rest = {
        "count": asked.count,
        "names": asked.names,
        "every": asked.every,
        "until": None if until is None else seconds_of(until),
        "zone": asked.zone,
        "days": asked.days and list(asked.days),
        "day": asked.day,
        "except": asked.except_ and list(asked.except_),
    }
    entry |= {key: value for key, value in rest.items() if value is not None}
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
    return _answer(runtime, outage, wanted, present_version(runtime), found.to_json())


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
    cluster = present_cluster(runtime)[0]
    return _answer(runtime, outage, cluster, answer.version, answer.summary, pending=answer.pending)


def _answer(
    runtime: Runtime,
    outage: Outage | None,
    cluster: Cluster,
    version: int,
    summary: Mapping[str, Any],
    *,
    pending: bool = False,
) -> OutageAnswer:
    """Return what is told of an outage; `summary` as `Adaptation.to_json` writes it."""
    shown = None
    if outage is not None:
        now_ms = runtime.now_ms()
        shown = _outage_to_json(outage, cluster, now_ms, now_ms + cluster.horizon_ms)
    return OutageAnswer(version=version, outage=shown, pending=pending, **summary)

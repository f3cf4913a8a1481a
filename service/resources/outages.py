"""Outages: loss, drain and maintenance of machines.

Outages are part of the cluster's description, so they are as durable, and `PUT /v1/cluster` has
them too. The machines and the id of an outage are determined when it is added.
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
from service.access.user import Role, present_actor
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

#: Longest duration of a call, seconds; it then returns the affected reservations known so far.
ANSWER_S: Final = 2.5

#: The most characters of a reason.
_LONGEST_REASON: Final = 200

#: Minimum time ahead in which the next occurrence of a recurring outage is searched.
_LOOK_AHEAD_MS: Final = 400 * DAY_MS

#: The most retries when another user changes the description at the same time.
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
            "loss: down now; drain: down after the current leases; maintenance: "
            "planned. When absent, maintenance if it recurs, else loss."
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
        doc(
            "Number of machines, from the highest index down; for a drain, those "
            "with the least work to move."
        ),
    ] = None
    names: Annotated[
        list[str] | None,
        MemberKind({"type": "array", "items": {"type": "string"}, "minItems": 1}, _read_names),
        doc("Names of the machines, instead of a count."),
    ] = None
    start: Annotated[BodyTime | None, doc("Start; now when absent.")] = None
    end: Annotated[BodyTime, doc("Expected end.")]
    reason: Annotated[
        str | None, text(_LONGEST_REASON), doc("Reason, shown in refusals and lists.")
    ] = None
    every: Annotated[
        str | None,
        text(16),
        doc("Period of a recurring outage in whole days or months: 1d, 1w, 1mo. Maintenance only."),
    ] = None
    until: Annotated[BodyTime | None, doc("End of the last occurrence; no end when absent.")] = None
    zone: Annotated[
        str | None, text(64), doc("Zone of the recurrence; the cluster's zone when absent.")
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
    version: Annotated[int, doc("Version of the Plan of this answer.")]
    outage: Annotated[dict[str, Any] | None, doc("The present outage; null if it was removed.")]
    pending: Annotated[
        bool,
        doc(
            "Whether the repair continues, so that more reservations may be "
            "affected: events and the list of reservations will show them."
        ),
    ]
    affected: Annotated[
        list[dict[str, Any]],
        doc("Reservations degraded, failed, moved, restored or relocated, in order."),
    ]
    dropped: Annotated[float, doc("Total value of the degraded reservations.")]
    moved: Annotated[float, doc("Work moved in time, in steps of the whole cluster.")]
    relocated: Annotated[
        float, doc("Work on other machines at the same times, in steps of the cluster.")
    ]
    short: Annotated[str, doc("Amounts that are still missing after the repair; empty if none.")]


class OutageList(Answer):
    version: int
    outages: list[dict[str, Any]]


calls = Calls()


@calls.post(
    "/v1/cluster/outages",
    "The machines are down; promises on them are moved or degraded.",
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
    dry_run: Annotated[
        Flag, doc("Return the reservations that would be affected without changing anything.")
    ] = False,
) -> Annotated[Response, OutageAnswer]:
    """Add an outage; the answer lists the affected reservations."""
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
    raise problem("conflict", "the cluster's description keeps changing; try again later")


@calls.get("/v1/cluster/outages", "The outages.")
def list_outages(runtime: Runtime) -> OutageList:
    """Current and future outages, earliest first."""
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
    """End an outage; degraded reservations are restored if they fit.

    An outage that has not begun is deleted, a current one ends now. An outage that moved work in
    this step lasts until its end, to explain the move.
    """
    until = time.monotonic() + ANSWER_S
    for _ in range(_ROUNDS):
        present, tag = present_cluster(runtime)
        step_ms = present.step_ms
        now_ms = runtime.now_ms() // step_ms * step_ms
        known = {one.id: one for one, _ in present.described_outages()}
        outage = known.get(id_)
        if outage is None or outage.over_ms <= now_ms:
            raise problem("not_found", f"there is no outage {id_!r}, or it has ended")
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
    raise problem("conflict", "the cluster's description keeps changing; try again later")


def _ended(outage: Outage, at_ms: int) -> Outage | None:
    """Return an outage shortened to end at an instant; None if nothing remains of it."""
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
    """Return an outage with the names of its machines; those absent now are listed separately.

    A recurring outage has the times of its present or next occurrence, and a list of the
    occurrences that have not ended and start before `ahead_ms`.
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
    """Return the time in ms in which to search for the next occurrence.

    It is at least two periods and more than a year, as some dates may be skipped.
    """
    return max(_LOOK_AHEAD_MS, 2 * (rule.days or 31 * rule.months) * DAY_MS)


def _span_json(span: tuple[int, int], origin: datetime | None) -> dict[str, Any]:
    """Return start and end in seconds from the origin, and as instants if there is an origin."""
    times = dict(zip(("start", "end"), map(seconds_of, span), strict=True))
    if origin is None:
        return times
    return times | {
        f"{name}_at": rfc3339_text(origin + timedelta(milliseconds=ms))
        for name, ms in zip(("start", "end"), span, strict=True)
    }


def twin_at_now(runtime: Runtime) -> Plan:
    """Return a copy of the Plan, advanced to the present step as by a change."""
    with runtime.reading() as plan:
        twin = plan.copy()
    now_step = runtime.now_ms() // twin.grid.step_ms
    twin.advance_to(now_step, now_step + twin.cluster.horizon_ms // twin.grid.step_ms)
    return twin


def _drain(twin: Plan, present: Cluster, outage: Outage, *, by_count: bool) -> Outage:
    """Start a drain after the current leases; by count, it takes the least used machines."""
    if outage.kind != "drain":
        return outage
    if by_count:
        outage = least_held(twin, present, outage)
    start = twin.grid.ms(drained_from(twin, present, outage))
    if start >= outage.end_ms:
        detail = "current leases last until the end of the drain; give it a later end"
        raise malformed_problem([ApiError(detail, pointer="/end")])
    return replace(outage, start_ms=max(start, outage.start_ms))


def _outage_of(runtime: Runtime, cluster: Cluster, asked: OutageRequest) -> Outage:
    """Return the requested outage, read in the same way as cluster files."""
    step_ms = cluster.step_ms
    now_ms = max(0, runtime.now_ms() // step_ms * step_ms)  # the Plan may begin in the future
    start, end = runtime.resolve(asked.start), runtime.resolve(asked.end)
    start = now_ms if start is None else start
    assert end is not None
    if start < now_ms:
        error = ApiError(
            "an outage cannot begin in the past",
            pointer="/start",
            fix="omit start for an outage that begins now",
        )
        raise malformed_problem([error])
    if end <= start:
        error = ApiError(
            "an outage must end after it begins", pointer="/end", fix="write +2h for two hours"
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
    """Return the changes that the adapter would make, tried on a copy of the Plan."""
    found = adapt(twin, EFFORT, wanted)
    return _answer(runtime, outage, wanted, present_version(runtime), found.to_json())


def _reconfigure(runtime: Runtime, wanted: Cluster, tag: str) -> int | None:
    """Change the description; return the new version, or None if `tag` is outdated."""
    answer = runtime.planner.change(Reconfiguration(wanted, tag))[0]
    if isinstance(answer, ClusterAnswer):
        return answer.version
    assert isinstance(answer, ProblemDocument)
    if answer.code == "stale_revision":
        return None
    raise ApiProblemError(answer)


def _adapt(runtime: Runtime, outage: Outage | None, since: int, until: float) -> OutageAnswer:
    """Return the affected reservations that are known by an instant of the monotonic clock."""
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
    """Return the answer for an outage; `summary` has the form of `Adaptation.to_json`."""
    shown = None
    if outage is not None:
        now_ms = runtime.now_ms()
        shown = _outage_to_json(outage, cluster, now_ms, now_ms + cluster.horizon_ms)
    return OutageAnswer(version=version, outage=shown, pending=pending, **summary)

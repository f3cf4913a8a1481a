"""Write clusters as plain JSON, in the form that `cluster_file` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC
from typing import Any, Final

from planner.cluster.cluster import (
    DAY_MS,
    DEFAULT_QUEUE,
    NO_MEMORY,
    OUTAGE_KINDS,
    Cluster,
    MachineGroup,
    Outage,
    Pool,
    Queue,
)
from planner.cluster.dispatch_policy import DispatchPolicy
from planner.cluster.optimization_schedule import OptimizationSchedule
from planner.cluster.policy import (
    DAYS,
    AgentLimit,
    ApplicationQuota,
    CapacityOverTime,
    DisplacementRule,
    Policy,
    Quota,
    RequestLimits,
)
from planner.cluster.recurrence import Recurrence
from rdl.durations import rfc3339_text
from rdl.operators import date_words, month_day_text, months_text
from rdl.resources import MEMORY, Resources
from rdl.time_grid import duration_text, seconds_of

#: Keys that identify an entry of a list, for comparing lists entry by entry.
_NAMES: Final = ("name", "id")


def cluster_to_json(cluster: Cluster) -> dict[str, Any]:
    """Return the form that `cluster_from_json` reads back to an equal cluster."""
    document: dict[str, Any] = {
        "step": duration_text(cluster.step_ms),
        "horizon": duration_text(cluster.horizon_ms),
    }
    if cluster.origin is not None:
        document["origin"] = rfc3339_text(cluster.origin.astimezone(UTC))
    if cluster.zone is not None:
        document["zone"] = cluster.zone
    if cluster.max_period_ms != DAY_MS:
        document["max_period"] = duration_text(cluster.max_period_ms)
    document["machines"] = [
        _group_json(replace(group, resources=cluster.on_machines(group.resources)))
        for group in cluster.machines
    ]
    if cluster.pools:
        document["pools"] = [_pool_json(pool) for pool in cluster.pools]
    if outages := [_outage_json(*one) for one in cluster.described_outages()]:
        document["outages"] = outages
    if cluster.taken:
        document["taken"] = [
            {"machine": name, "resources": amounts.to_json()} for name, amounts in cluster.taken
        ]
    if cluster.queues != (Queue(DEFAULT_QUEUE),):
        document["queues"] = [
            {"name": queue.name, "reservable": queue.reservable} for queue in cluster.queues
        ]
    if cluster.prices:
        document["prices"] = [
            {"start": seconds_of(p.start_ms), "end": seconds_of(p.end_ms), "factor": p.factor}
            for p in cluster.prices
        ]
    if cluster.policies:
        document["policies"] = [_policy_json(policy) for policy in cluster.policies]
    # Always written: a document without it is from before there were levels.
    document["promises"] = {"level": str(cluster.promise)}
    if cluster.promise_choices:
        choices = [str(level) for level in cluster.promise_choices]
        document["promises"]["requests_may_choose"] = choices
    if cluster.memory_per_cpu is not None:
        share = cluster.memory_per_cpu
        amount = Resources.of({MEMORY: share}).to_json()[MEMORY] if share else NO_MEMORY
        document["promises"]["memory_per_cpu"] = amount
    if cluster.calendars:
        document["calendars"] = {name: date_words(dates) for name, dates in cluster.calendars}
    if cluster.optimizations:
        document["optimizations"] = [_schedule_json(one) for one in cluster.optimizations]
    if cluster.dispatch != DispatchPolicy():
        document["dispatch"] = dispatch_to_json(cluster.dispatch)
    return document


def dispatch_to_json(policy: DispatchPolicy) -> dict[str, Any]:
    """Return all options of a dispatch policy."""
    return asdict(policy)


def _group_json(group: MachineGroup) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": group.name,
        "count": group.count,
        "resources": group.resources.to_json(),
    }
    if group.labels:
        entry["labels"] = sorted(group.labels)
    if group.domains:
        entry["domains"] = dict(group.domains)
    return entry


def _pool_json(pool: Pool) -> dict[str, Any]:
    bounds = {"from": pool.start_ms, "to": pool.end_ms}
    times = {key: seconds_of(ms) for key, ms in bounds.items() if ms is not None}
    return {"name": pool.name, "count": pool.count, **times}


def machine_names(outage: Outage, indices: Iterable[int]) -> list[str]:
    """Return the names of machines of an outage's group."""
    return [f"{outage.machines}-{index}" for index in indices]


def _outage_json(outage: Outage, absent: tuple[int, ...]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": outage.id,
        "machines": outage.machines,
        "names": machine_names(outage, outage.indices),
        "start": seconds_of(outage.start_ms),
        "end": seconds_of(outage.end_ms),
    }
    if absent:
        entry["absent"] = machine_names(outage, absent)
    if outage.kind != OUTAGE_KINDS[0]:
        entry["kind"] = outage.kind
    if outage.recurs is not None:
        entry |= recurrence_json(outage.recurs)
    entry |= {key: word for key, word in (("reason", outage.reason), ("by", outage.by)) if word}
    return entry


def recurrence_json(rule: Recurrence) -> dict[str, Any]:
    """Return the recurrence of an outage in the form of cluster files."""
    every = months_text(rule.months) if rule.months else duration_text(rule.days * DAY_MS)
    entry: dict[str, Any] = {"every": every, "zone": rule.zone}
    if rule.until_ms is not None:
        entry["until"] = seconds_of(rule.until_ms)
    if rule.weekdays:
        entry["days"] = [DAYS[day] for day in sorted(rule.weekdays)]
    if rule.day is not None:
        entry["day"] = month_day_text(rule.day)
    if rule.without:
        entry["except"] = date_words(rule.without)
    return entry


def _schedule_json(one: OptimizationSchedule) -> dict[str, Any]:
    """Return all options of a schedule that differ from their defaults."""
    entry: dict[str, Any] = {
        "name": one.name,
        "at": one.at.isoformat("minutes"),
        "time_limit": duration_text(one.time_limit_ms),
        "frozen": duration_text(one.frozen_ms),
        "admit_refused": one.admit_refused,
        "solver": {None: "auto", "": "none"}.get(one.solver, one.solver),
    }
    if one.days:
        entry["days"] = [DAYS[day] for day in sorted(one.days)]
    if one.zone != "UTC":
        entry["zone"] = one.zone
    if one.apply_below is not None:
        entry["apply_below"] = one.apply_below
    return entry


def _policy_json(policy: Policy) -> dict[str, Any]:
    scope = {
        key: value
        for key, value in (("tenant", policy.scope.tenant), ("queue", policy.scope.queue))
        if value is not None
    }
    rest: dict[str, Any]
    match policy:
        case CapacityOverTime():
            kind = "capacity_over_time"
            rest = {
                "instant": None if policy.instant is None else float(policy.instant),
                "average": None if policy.average is None else float(policy.average),
                "window": None if policy.window_ms is None else duration_text(policy.window_ms),
            }
        case Quota():
            kind = "quota"
            rest = {
                "limit": _limit_json(policy.limit) or None
                if policy.cohort
                else _limit_json(policy.limit),
                "guarantee": _limit_json(policy.guarantee) if policy.cohort else None,
                "cohort": policy.cohort,
                "lend": duration_text(policy.lend_ms) if policy.cohort else None,
                "from": None if policy.start is None else policy.start.isoformat("minutes"),
                "to": None if policy.end is None else policy.end.isoformat("minutes"),
                "days": [DAYS[day] for day in sorted(policy.days)] or None,
                "zone": None if policy.zone == "UTC" else policy.zone,
            }
        case ApplicationQuota():
            kind = "applications"
            longest = policy.max_run_ms
            rest = {
                "limit": _limit_json(policy.limit) or None,
                "max_count": policy.max_count,
                "max_run": None if longest is None else duration_text(longest),
            }
        case RequestLimits():
            kind = "limits"
            rest = {
                key: None if ms is None else duration_text(ms)
                for key, ms in (
                    ("max_window", policy.max_window_ms),
                    ("min_lead", policy.min_lead_ms),
                    ("max_lead", policy.max_lead_ms),
                )
            } | {"max_count": policy.max_count, "max_priority": policy.max_priority}
        case AgentLimit():
            kind = "agent"
            rest = {
                "agent": policy.agent,
                "instant": None if policy.instant is None else float(policy.instant),
                "limit": _limit_json(policy.limit) or None,
                "max_count": policy.max_count,
            }
        case DisplacementRule():
            kind = "displacement"
            rest = {"running": policy.running or None}
    given = {key: value for key, value in rest.items() if value is not None}
    return {"type": kind, "name": policy.name, **scope, **given}


def _limit_json(limit: tuple[tuple[str, int], ...]) -> dict[str, Any]:
    """Return the amounts of a quota, zeros included, since they forbid a resource."""
    return dict.fromkeys((name for name, _ in limit), 0) | Resources.of(limit).to_json()


def difference(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yield a line for each member of a JSON document that is added, removed or changed.

    ``+ policies team: {...}``, ``- prices: [...]``, ``machines plain.count: 10 -> 12``. Entries of
    lists are matched by name or id, if all have one.
    """
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{where}.{key}" if where else key
            yield from difference(before.get(key), after.get(key), inner)
    elif (old := _by_name(before)) is not None and (new := _by_name(after)) is not None:
        for name in dict.fromkeys((*old, *new)):
            yield from difference(old.get(name), new.get(name), f"{where} {name}")
    elif before is None:
        yield f"+ {where}: {_plain(after)}"
    elif after is None:
        yield f"- {where}: {_plain(before)}"
    else:
        yield f"{where}: {_plain(before)} -> {_plain(after)}"


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return the entries of a list by name; None if they have none."""
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        return None
    for key in _NAMES:
        found = {str(one[key]): one for one in value if key in one}
        if len(found) == len(value):
            return found
    return None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

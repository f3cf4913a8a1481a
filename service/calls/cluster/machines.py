"""Machines one by one: up or away, what they have, what is promised of them, what runs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from planner.cluster.cluster import Cluster, Outage
from planner.plan.plan import Plan
from planner.reservations.reservation import slots_to_json
from planner.reservations.slots import NOWHERE
from rdl.durations import rfc3339_text
from rdl.errors import did_you_mean
from rdl.resources import Resources
from rdl.time_grid import seconds_of
from service.access.user import User
from service.dispatching.documents import read_document
from service.problems import ApiError, malformed

if TYPE_CHECKING:
    from service.runtime import Runtime


@dataclass(slots=True)
class _Load:
    """What stands on one machine."""

    used: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    slots: list[dict[str, Any]] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)


def machines(
    runtime: Runtime, user: User, group: str | None = None, at_ms: int | None = None
) -> dict[str, Any]:
    """Return every machine of a group, or of all, at an instant.

    Slots are those of the Plan at the instant, components those of the last assignment. Of tenants
    that the user does not act for amounts are told, and neither ids nor names.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a group that there is not.
    """
    now_ms = runtime.now_ms()
    instant_ms = now_ms if at_ms is None else at_ms
    loads: dict[str, _Load] = {}
    with runtime.reading() as plan:
        cluster, version = plan.cluster, plan.version
        for machine, bundle, slot in _slots_at(plan, instant_ms, user):
            load = loads.setdefault(machine, _Load())
            load.slots.append(slot)
            _add(load.promised, bundle, slot["bundles"])
    known = [one.name for one in cluster.machines]
    if group is not None and group not in known:
        fix = did_you_mean(group, known)
        raise malformed([ApiError(f"there is no group {group!r}", pointer="?group", fix=fix)])
    for machine, size, component in _components(runtime, user):
        load = loads.setdefault(machine, _Load())
        load.components.append(component)
        _add(load.used, size, 1)
    return {
        "version": version,
        "at": seconds_of(instant_ms),
        "at_at": runtime.calendar(instant_ms),
        "machines": [
            entry
            for entry in _entries(cluster, loads, instant_ms)
            if group in (None, entry["group"])
        ],
    }


def _add(total: dict[str, int], size: Mapping[str, int], count: int) -> None:
    for name, amount in size.items():
        total[name] = total.get(name, 0) + amount * count


def _slots_at(
    plan: Plan, at_ms: int, user: User
) -> Iterator[tuple[str, Resources, dict[str, Any]]]:
    """Yield the slots that hold at an instant: the machine, the bundle, and how it is shown."""
    step, table, grid = plan.grid.floor(at_ms), plan.table, plan.grid
    meta = table.meta
    near = np.flatnonzero((meta["begin"] <= step) & (meta["finish"] > step))
    standing = table.standing_slots(near)
    slots = standing.slots
    here = (slots[:, 0] <= step) & (slots[:, 1] > step) & (slots[:, 3] != NOWHERE)
    for place in np.flatnonzero(here).tolist():
        number, kind = int(standing.number[place]), int(standing.kind[place])
        bundle = standing.kinds[kind][0]
        tenant = table.scope(number)[0]
        seen = user.acts_for(tenant)
        start, end, bundles, machine = slots_to_json(
            slots[place : place + 1], grid, table.machines
        )[0]
        yield (
            machine,
            bundle,
            {
                "reservation": table.header(number)["id"] if seen else None,
                "tenant": tenant if seen else None,
                "start": start,
                "end": end,
                "bundles": bundles,
                "bundle": bundle.to_json(),
            },
        )


def _components(runtime: Runtime, user: User) -> Iterator[tuple[str, Resources, dict[str, Any]]]:
    """Yield the components of the last assignment: the machine, the size, and how it is shown."""
    rows = msgspec.json.decode(runtime.dispatcher.rows.assignment()).get("rows", [])
    if not rows:
        return
    sizes: dict[tuple[str, str], Resources] = {}
    tenants: dict[str, str] = {}
    for one in runtime.dispatcher.rows.open():
        tenants[one.id] = one.tenant
        for part in read_document(one.document).application.components:
            sizes[one.id, part.name] = part.resources
    for row in rows:
        id_, name = row["execution"], row["component"]
        if (id_, name) in sizes:  # else it is over since
            shown = {"execution": id_, "component": name, "index": row["index"]}
            if not user.acts_for(tenants[id_]):
                shown = dict.fromkeys(shown)
            yield row["machine"], sizes[id_, name], shown | {"covered": row["covered"]}


def _entries(cluster: Cluster, loads: Mapping[str, _Load], at_ms: int) -> Iterator[dict[str, Any]]:
    for group in cluster.machines:
        outages = [one for one in cluster.outages if one.machines == group.name]
        for index in range(group.count):
            name = f"{group.name}-{index}"
            load = loads.get(name, _Load())
            away = _away(outages, index, at_ms)
            yield {
                "name": name,
                "group": group.name,
                "index": index,
                "up": away is None,
                "outage": None if away is None else _outage_to_json(away, cluster),
                "capacity": group.resources.to_json(),
                "used": Resources.of(load.used).to_json(),
                "promised": Resources.of(load.promised).to_json(),
                "slots": load.slots,
                "components": load.components,
            }


def _away(outages: Iterable[Outage], index: int, at_ms: int) -> Outage | None:
    """Return the outage that a machine is in, the last to end of several."""
    known = [one for one in outages if index in one.indices and one.start_ms <= at_ms < one.end_ms]
    return max(known, key=lambda one: one.end_ms, default=None)


def _outage_to_json(outage: Outage, cluster: Cluster) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": outage.kind, "end": seconds_of(outage.end_ms)}
    if cluster.origin is not None:
        grid = cluster.grid()
        entry["end_at"] = rfc3339_text(grid.instant_at(outage.end_ms))
    return entry

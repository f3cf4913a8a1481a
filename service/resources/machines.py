"""Machines: state, capacity, promised slots and running components of each machine.

At an instant, and as lanes over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import numpy as np

from planner.cluster.cluster import SPARE, Cluster, Outage
from planner.colours import tenant_slots
from planner.placement import Code
from planner.plan.column_reading import scope_column
from planner.plan.plan import Plan
from planner.plan.table import StandingSlots
from planner.reservations.reservation import slots_to_json
from planner.reservations.slots import NOWHERE
from rdl.durations import rfc3339_text
from rdl.errors import did_you_mean
from rdl.resources import Resources
from rdl.time_grid import seconds_of
from service.access.user import User
from service.dispatching.documents import read_document
from service.http.kinds import Flag, QueryTime, Word, integer
from service.http.kit import Amounts, Answer, Calls, Count, Input, Instant, OpenAnswer, doc
from service.problems import ApiError, ApiProblemError, malformed_problem
from service.resources.plan import From, PlanSpan, To, ends_of
from service.resources.skyline import TenantSlot
from service.runtime import Runtime


class MachineQuery(Input):
    group: Annotated[Word | None, doc("Only of this group.")] = None
    name: Annotated[Word | None, doc("Only this machine.")] = None
    first: Annotated[int, integer(0, 10**9), doc("Number of machines to skip.")] = 0
    most: Annotated[
        int | None, integer(1, 10**9), doc("Number of machines to return; default: all.")
    ] = None
    brief: Annotated[Flag, doc("Return amounts only, without slots and components.")] = False
    at: Annotated[QueryTime | None, doc("Time of slots and outages; default: now.")] = None


class MachineSlot(OpenAnswer):
    reservation: Annotated[str | None, doc("Null if you may not see it.")]
    tenant: Annotated[str | None, doc("Null if you may not see it.")]
    start: float
    end: float
    bundles: Count
    bundle: Amounts


class MachineComponent(OpenAnswer):
    execution: Annotated[str | None, doc("Null if you may not see it.")]
    component: Annotated[str | None, doc("Null if you may not see it.")]
    index: int | None
    covered: Annotated[bool, doc("Whether a reservation covers it.")]


class MachineView(OpenAnswer):
    name: str
    group: str
    index: Count
    up: bool
    outage: dict[str, Any] | None
    next_outage: Annotated[
        dict[str, Any] | None,
        doc("The next outage that begins after the instant, within the horizon."),
    ]
    capacity: Amounts
    used: Annotated[Amounts, doc("By the components on the machine.")]
    promised: Annotated[Amounts, doc("By the Plan's slots.")]
    used_share: Annotated[float, doc("Used share of the most used resource, 0 to 1.")]
    promised_share: Annotated[float, doc("Promised share of the most promised resource.")]
    slots: list[MachineSlot]
    components: list[MachineComponent]


class MachinesView(OpenAnswer):
    version: Count
    at: Annotated[float, doc("Seconds from the origin.")]
    at_at: Instant
    left_out: Annotated[Count, doc("Number of machines before `first` and after `most`.")]
    machines: list[MachineView]


@dataclass(slots=True)
class _Load:
    """The load of one machine."""

    used: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    slots: list[MachineSlot] = field(default_factory=list)
    components: list[MachineComponent] = field(default_factory=list)


calls = Calls()


@calls.get("/v1/machines", "The machines, by group.", fails=(Code.MALFORMED,))
def list_machines(runtime: Runtime, user: User, query: MachineQuery) -> MachinesView:
    """Each machine: state, slots in the Plan, and components.

    Slots are those of the Plan at the instant, components those of the last assignment. For
    tenants that the user does not act for it has amounts, but neither ids nor names.
    """
    asked_ms = runtime.resolve(query.at)
    at_ms = runtime.now_ms() if asked_ms is None else asked_ms
    last = None if query.most is None else query.first + query.most
    with runtime.reading() as plan:
        cluster, version, end_ms = plan.cluster, plan.version, plan.grid.horizon_ms
        chosen = _chosen(cluster, query)
        told = chosen[query.first : last]
        loads = {f"{group}-{index}": _Load() for group, index in told}
        standing = _standing_at(plan, at_ms)
        for machine, bundle, count in _promised(plan, standing):
            if machine in loads:
                _add(loads[machine].promised, bundle, count)
        if not query.brief:
            for machine, slot in _slots_of(plan, standing, user):
                if machine in loads:
                    loads[machine].slots.append(slot)
    for machine, size, component in _components(runtime, user):
        if machine in loads:
            _add(loads[machine].used, size, 1)
            if not query.brief:
                loads[machine].components.append(component)
    return MachinesView(
        version=version,
        at=seconds_of(at_ms),
        at_at=runtime.calendar(at_ms),
        left_out=len(chosen) - len(told),
        machines=list(_entries(cluster, told, loads, (at_ms, end_ms))),
    )


def _chosen(cluster: Cluster, wanted: MachineQuery) -> list[tuple[str, int]]:
    """Return group and index of the requested machines, in the cluster's order."""
    known = [one.name for one in cluster.machines]
    if wanted.group is not None and wanted.group not in known:
        raise _nothing_like("group", wanted.group, known)
    chosen = [
        (group.name, index)
        for group in cluster.machines
        if wanted.group in (None, group.name)
        for index in range(group.count)
    ]
    if wanted.name is None:
        return chosen
    found = [(group, index) for group, index in chosen if f"{group}-{index}" == wanted.name]
    if not found:
        raise _nothing_like("machine", wanted.name, [f"{one.name}-0" for one in cluster.machines])
    return found


def _nothing_like(what: str, given: str, known: list[str]) -> ApiProblemError:
    parameter = "?group" if what == "group" else "?name"
    fix = did_you_mean(given, known)
    return malformed_problem(
        [ApiError(f"there is no {what} {given!r}", pointer=parameter, fix=fix)]
    )


def _add(total: dict[str, int], size: Mapping[str, int], count: int) -> None:
    for name, amount in size.items():
        total[name] = total.get(name, 0) + amount * count


def _standing_at(plan: Plan, at_ms: int) -> StandingSlots:
    """Return the slots that are on a machine at an instant."""
    step, table = plan.grid.floor(at_ms), plan.table
    meta = table.meta
    near = np.flatnonzero((meta["begin"] <= step) & (meta["finish"] > step))
    near_slots = table.standing_slots(near)
    slots = near_slots.slots
    here = (slots[:, 0] <= step) & (slots[:, 1] > step) & (slots[:, 3] != NOWHERE)
    return StandingSlots(
        near_slots.number[here],
        near_slots.atom[here],
        near_slots.kind[here],
        slots[here],
        near_slots.kinds,
    )


def _promised(plan: Plan, standing: StandingSlots) -> Iterator[tuple[str, Resources, int]]:
    """Yield machine, bundle and number of bundles, once per machine and kind of bundle."""
    pairs = np.stack([standing.slots[:, 3], standing.kind], axis=1)
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    counts = np.bincount(inverse.reshape(-1), weights=standing.slots[:, 2], minlength=len(unique))
    for (machine, kind), count in zip(unique.tolist(), counts.tolist(), strict=True):
        yield plan.table.machines[machine], standing.kinds[kind][0], int(count)


def _slots_of(plan: Plan, standing: StandingSlots, user: User) -> Iterator[tuple[str, MachineSlot]]:
    """Yield the machine of each slot, and the slot as shown to the user."""
    table = plan.table
    shown = slots_to_json(standing.slots, plan.grid, table.machines)
    numbers, kinds = standing.number.tolist(), standing.kind.tolist()
    for number, kind, (start, end, bundles, machine) in zip(numbers, kinds, shown, strict=True):
        tenant = table.scope(number)[0]
        seen = user.acts_for(tenant)
        yield (
            machine,
            MachineSlot(
                reservation=table.header(number)["id"] if seen else None,
                tenant=tenant if seen else None,
                start=start,
                end=end,
                bundles=bundles,
                bundle=standing.kinds[kind][0].to_json(),
            ),
        )


def _components(runtime: Runtime, user: User) -> Iterator[tuple[str, Resources, MachineComponent]]:
    """Yield the components of the last assignment: machine, size, and view for the user."""
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
        if (id_, name) in sizes:  # else it has ended meanwhile
            seen = user.acts_for(tenants[id_])
            shown = MachineComponent(
                execution=id_ if seen else None,
                component=name if seen else None,
                index=row["index"] if seen else None,
                covered=row["covered"],
            )
            yield row["machine"], sizes[id_, name], shown


def _entries(
    cluster: Cluster,
    told: Iterable[tuple[str, int]],
    loads: Mapping[str, _Load],
    span_ms: tuple[int, int],
) -> Iterator[MachineView]:
    """Yield the machines at the start of a span, with the next outage of each in it."""
    sizes = {group.name: cluster.on_machines(group.resources) for group in cluster.machines}
    shown = {name: size.to_json() for name, size in sizes.items()}
    less = {name: cluster.on_machines(left) for name, left in cluster.left.items()}
    away, later = _away_at(cluster, span_ms[0]), _next_outages(cluster, *span_ms)
    for group, index in told:
        name = f"{group}-{index}"
        load, size = loads[name], less.get(name, sizes[group])
        outage = away.get((group, index))
        yield MachineView(
            name=name,
            group=group,
            index=index,
            up=outage is None or outage.kind == SPARE,
            outage=None if outage is None else _outage_to_json(outage, cluster),
            next_outage=later.get((group, index)),
            capacity=size.to_json() if name in less else shown[group],
            used=Resources.of(load.used).to_json(),
            promised=Resources.of(load.promised).to_json(),
            used_share=_share(load.used, size),
            promised_share=_share(load.promised, size),
            slots=load.slots,
            components=load.components,
        )


def _share(amounts: Mapping[str, int], size: Mapping[str, int]) -> float:
    """Return the utilisation of a machine's most used resource."""
    shares = [amount / size[name] for name, amount in amounts.items() if size.get(name)]
    return round(max(shares, default=0.0), 4)


def _away_at(cluster: Cluster, at_ms: int) -> dict[tuple[str, int], Outage]:
    """Return the outage of each machine that has one, the last to end if there are several.

    An outage of kind spare, during which work continues, counts only if there is no other.
    """
    under_way = sorted(cluster.outages_at(at_ms), key=lambda one: (one.kind != SPARE, one.end_ms))
    return {(one.machines, index): one for one in under_way for index in one.indices}


def _next_outages(
    cluster: Cluster, at_ms: int, end_ms: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """Return, as JSON, the next outage of each machine that begins in (at_ms, end_ms)."""
    coming = [
        one
        for one in cluster.outages_between(at_ms, end_ms)
        if at_ms < one.start_ms < end_ms and one.kind != SPARE
    ]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for one in sorted(coming, key=lambda one: -one.start_ms):
        entry = _outage_to_json(one, cluster) | {"start": seconds_of(one.start_ms), "by": one.by}
        if cluster.origin is not None:
            entry["start_at"] = rfc3339_text(cluster.grid().instant_at(one.start_ms))
        found |= {(one.machines, index): entry for index in one.indices}
    return found


def _outage_to_json(outage: Outage, cluster: Cluster) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": outage.kind,
        "end": seconds_of(outage.end_ms),
        "reason": outage.reason,
    }
    if cluster.origin is not None:
        grid = cluster.grid()
        entry["end_at"] = rfc3339_text(grid.instant_at(outage.end_ms))
    return entry


#: The most machines in one answer.
MOST_LANES = 500


class MachineLanesQuery(Input):
    group: Annotated[Word | None, doc("Only of this group.")] = None
    first: Annotated[int, integer(0, 10**9), doc("Number of machines to skip.")] = 0
    most: Annotated[int, integer(1, MOST_LANES), doc("Maximum number of lanes.")] = MOST_LANES
    from_: From = None
    to: To = None


class LaneSlot(Answer):
    start: float
    end: float
    share: Annotated[float, doc("Share of the machine's most used resource, 0 to 1.")]
    reservation: Annotated[str | None, doc("Null if you may not see it.")]
    tenant: Annotated[str | None, doc("Null if you may not see it.")]
    slot: TenantSlot


class LaneOutage(Answer):
    kind: str
    start: float
    end: float
    reason: str


class LaneRun(Answer):
    execution: Annotated[str | None, doc("Null if you may not see it.")]
    component: Annotated[str | None, doc("Null if you may not see it.")]
    share: float


class MachineLane(Answer):
    name: str
    group: str
    slots: Annotated[list[LaneSlot], doc("Slots of the Plan, by start.")]
    outages: Annotated[list[LaneOutage], doc("By start.")]
    running: Annotated[list[LaneRun], doc("Components that are on the machine now.")]


class MachineLanes(Answer):
    version: Count
    from_: float
    to: float
    from_at: Instant
    to_at: Instant
    now: float
    left_out: Annotated[Count, doc("Number of machines before `first` and after `most`.")]
    lanes: list[MachineLane]


@calls.get("/v1/machines/lanes", "The lanes, by group.", fails=(Code.MALFORMED,))
def list_machine_lanes(runtime: Runtime, user: User, query: MachineLanesQuery) -> MachineLanes:
    """Each machine over time: slots in the Plan, outages, and the components that run now.

    For tenants that the user does not act for it has amounts, but neither ids nor names.
    """
    span = PlanSpan(runtime.resolve(query.from_), runtime.resolve(query.to))
    with runtime.reading() as plan:
        cluster, grid = plan.cluster, plan.grid
        chosen = _chosen(cluster, MachineQuery(group=query.group))
        shown = chosen[query.first : query.first + query.most]
        start, end = ends_of(plan, span, past=True)
        lanes = {
            f"{group}-{index}": MachineLane(
                name=f"{group}-{index}", group=group, slots=[], outages=[], running=[]
            )
            for group, index in shown
        }
        for machine, slot in _lane_slots(plan, start, end, user):
            if machine in lanes:
                lanes[machine].slots.append(slot)
        version, now = plan.version, grid.seconds(plan.now)
        for machine, outage in _lane_outages(cluster, grid.ms(start), grid.ms(end)):
            if machine in lanes:
                lanes[machine].outages.append(outage)
    sizes = {group.name: cluster.on_machines(group.resources) for group in cluster.machines}
    for machine, size, component in _components(runtime, user):
        if machine in lanes:
            run = LaneRun(
                execution=component.execution,
                component=component.component,
                share=_share(size, sizes[lanes[machine].group]),
            )
            lanes[machine].running.append(run)
    for lane in lanes.values():
        lane.slots.sort(key=lambda one: (one.start, one.end))
        lane.outages.sort(key=lambda one: (one.start, one.end))
    return MachineLanes(
        version=version,
        from_=grid.seconds(start),
        to=grid.seconds(end),
        from_at=rfc3339_text(grid.instant_at(grid.ms(start))),
        to_at=rfc3339_text(grid.instant_at(grid.ms(end))),
        now=now,
        left_out=len(chosen) - len(shown),
        lanes=list(lanes.values()),
    )


def _lane_slots(plan: Plan, start: int, end: int, user: User) -> Iterator[tuple[str, LaneSlot]]:
    """Yield the slots on machines between two steps."""
    table, grid = plan.table, plan.grid
    numbers = table.holding_between(np.arange(len(table)), start, end)
    standing = table.standing_slots(numbers)
    slots = standing.slots
    here = (slots[:, 0] < end) & (slots[:, 1] > start) & (slots[:, 3] != NOWHERE)
    column = scope_column(table, np.arange(len(table)), "tenant")
    place_of = tenant_slots(column.words)
    ends = np.cumsum([group.count for group in plan.cluster.machines])
    sizes = [plan.cluster.on_machines(group.resources) for group in plan.cluster.machines]
    for number, kind, (first, last, count, machine) in zip(
        standing.number[here].tolist(),
        standing.kind[here].tolist(),
        slots[here].tolist(),
        strict=True,
    ):
        tenant = table.scope(number)[0]
        seen = user.acts_for(tenant)
        size = sizes[int(np.searchsorted(ends, machine, side="right"))]
        bundle = standing.kinds[kind][0]
        amounts = {name: amount * count for name, amount in bundle.items()}
        yield (
            table.machines[machine],
            LaneSlot(
                start=grid.seconds(first),
                end=grid.seconds(last),
                share=_share(amounts, size),
                reservation=table.header(number)["id"] if seen else None,
                tenant=tenant if seen else None,
                slot=place_of.get(tenant) if seen else None,
            ),
        )


def _lane_outages(cluster: Cluster, start_ms: int, end_ms: int) -> Iterator[tuple[str, LaneOutage]]:
    """Yield the outages of machines between two instants, ms from the origin."""
    for one in cluster.outages_between(start_ms, end_ms):
        if one.kind != SPARE and one.start_ms < end_ms and one.end_ms > start_ms:
            shown = LaneOutage(
                kind=one.kind,
                start=seconds_of(one.start_ms),
                end=seconds_of(one.end_ms),
                reason=one.reason,
            )
            for index in one.indices:
                yield f"{one.machines}-{index}", shown

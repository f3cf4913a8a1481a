"""From a plan file back to a Plan, and the figures of a Plan that was planned before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from planner.cluster.cluster import Cluster
from planner.files.errors import FileError, FileProblem
from planner.files.plan_document import PlanDocument
from planner.metrics import Metrics, RequestOutcome, measure
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused
from planner.promise import PromiseLevel, asked_level
from planner.renegotiation import result_of, result_of_rows
from planner.request import Request
from planner.reservations.holding import holding_of, with_slots
from planner.reservations.reservation import (
    AtomAllocation,
    Degradation,
    Holding,
    Refusal,
    RequestDetails,
    Rows,
)
from planner.reservations.rows import add_up
from planner.reservations.slots import NOWHERE, MachineRule, Slots, no_slots, sort_slots
from planner.reservations.state import State
from planner.value import prices_of, size_of, worth_of
from rdl.compile.compiler import compile_source
from rdl.compound import vertices_by_path
from rdl.errors import RdlError
from rdl.expressions import atom_at
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import WorkGraph

#: States whose value counts as accepted (planner.metrics.RequestOutcome).
_COUNTED = (State.ACCEPTED, State.ACTIVE, State.COMPLETED, State.CANCELLED)


def plan_of_document(document: PlanDocument, path: str = "plan") -> Plan:
    """Return the Plan that a plan file shows, at step 0 and at the file's version.

    Raises
    ------
    FileError
        If its cluster, or the allocation of a reservation, is impossible.
    """
    cluster = document.read_cluster(path)
    grid = cluster.grid()
    plan = Plan(cluster, grid)
    changes: list[RecordedChange] = []
    for index, entry in enumerate(document.reservations):
        try:
            changes.append(_admission_of(entry, cluster, grid))
        except (RdlError, ValueError) as error:
            where = f"/reservations/{index}"
            raise FileError(path, (FileProblem(str(error), where),)) from error
    changes += [Refused(_refusal(entry)) for entry in document.refusals]
    if changes:
        plan.apply(CommitRecord(1, 0, tuple(changes)))
    for number, entry in enumerate(document.reservations):
        state = State(entry["state"])
        if state is not plan.table.state(number):
            plan.set_state(number, state)
        plan.table.meta[number]["revision"] = entry["revision"]
        if "degradation" in entry:
            plan.table.degradations[number] = Degradation.from_json(entry["degradation"])
    plan.version = document.version
    return plan


def _admission_of(entry: Mapping[str, Any], cluster: Cluster, grid: TimeGrid) -> Admitted:
    submitted_ms = round(entry["submitted"] * 1000)
    details = RequestDetails(
        entry["expression"],
        tuple(entry["choices"].items()),
        tuple(entry.get("notes", ())),
        written=entry.get("written", ""),
    )
    return Admitted(
        entry["id"],
        entry["tenant"],
        entry["queue"],
        submitted_ms,
        entry["weight"],
        entry["priority"],
        entry["agent"],
        details,
        _with_slots(entry, _holding_of_entry(entry, submitted_ms, cluster, grid), cluster, grid),
        asked_level(entry) or PromiseLevel.POOLED,
    )


def _holding_of_entry(
    entry: Mapping[str, Any], submitted_ms: int, cluster: Cluster, grid: TimeGrid
) -> Holding:
    """Return the holding of an entry: as a pattern of occurrences if possible, else as single
    ones."""
    expression = parse(entry["expression"])
    rows = {one["path"]: _rows(one["allocation"], grid) for one in entry["atoms"]}
    atoms = []
    for one in entry["atoms"]:
        asked = atom_at(expression, one["path"])
        if asked is None:
            raise ValueError(f"{one['path']!r} is no atom of the expression")
        released = _rows(one.get("released", []), grid)
        bundle = Resources.from_json(one["bundle"])
        held = AtomAllocation(one["path"], bundle, asked.on, rows[one["path"]], (0,), released)
        rule = MachineRule(
            one.get("spread", 0),
            one.get("domain"),
            one.get("handover", True),
            one.get("within"),
            one.get("shared", False),
            one.get("values", 1),
        )
        atoms.append(replace(held, rule=rule))
    begin = min((int(held[0, 0]) for held in rows.values() if len(held)), default=0)
    finish = max((int(held[-1, 1]) for held in rows.values() if len(held)), default=begin)
    plain = Holding(tuple(atoms), begin, finish)
    if any("@" in path for path in rows) or not rows:
        return _pattern(entry, submitted_ms, cluster, grid, rows) or plain
    return plain


def _with_slots(
    entry: Mapping[str, Any], holding: Holding, cluster: Cluster, grid: TimeGrid
) -> Holding:
    """Return a holding with the slots that its entry names, each machine by its number."""
    told = {one["path"]: one["slots"] for one in entry["atoms"] if "slots" in one}
    if not told:
        return holding
    numbers: dict[str | None, int] = {name: i for i, name in enumerate(cluster.machine_names)}
    numbers[None] = NOWHERE
    found: list[Slots | None] = []
    for atom in holding.atoms:
        paths = [path for path, _ in atom.occurrences()]
        if any(path not in told for path in paths):
            found.append(None)
            continue
        parts = [_slots(told[path], numbers, grid) for path in paths]
        slots = sort_slots(np.concatenate([no_slots(), *parts]))
        if not np.array_equal(add_up(slots[:, :3]), add_up(atom.all_rows())):
            raise ValueError(f"the slots of {atom.path or 'the request'} are not what it holds")
        found.append(slots)
    return with_slots(holding, tuple(found))


def _slots(
    told: Sequence[Sequence[Any]], numbers: Mapping[str | None, int], grid: TimeGrid
) -> Slots:
    unknown = [name for *_, name in told if name not in numbers]
    if unknown:
        raise ValueError(f"the cluster has no machine {unknown[0]!r}")
    rows = _rows([one[:3] for one in told], grid)
    machines = np.array([numbers[one[3]] for one in told], dtype=np.int64).reshape(-1, 1)
    return np.concatenate([rows, machines], axis=1)


def _pattern(
    entry: Mapping[str, Any],
    submitted_ms: int,
    cluster: Cluster,
    grid: TimeGrid,
    rows: Mapping[str, Rows],
) -> Holding | None:
    """Return the holding whose occurrences are exactly `rows`, or None."""
    context = cluster.context(grid, submitted_ms)
    try:
        graph = compile_source(entry["expression"], context)
    except RdlError:
        return None
    result = result_of_rows(graph, {path: one for path, one in rows.items() if len(one)})
    request = Request(entry["id"], "", "", submitted_ms, 1.0, 0, graph)
    holding = holding_of(request, result)
    found = {path: held for atom in holding.atoms for path, held in atom.occurrences()}
    same = found.keys() == rows.keys() and all(
        np.array_equal(found[path], rows[path]) for path in rows
    )
    return holding if same else None


def _rows(rows: Sequence[Sequence[float]], grid: TimeGrid) -> Rows:
    steps = [[grid.floor(round(s * 1000)), grid.floor(round(e * 1000)), n] for s, e, n in rows]
    return np.array(steps, dtype=np.int64).reshape(-1, 3)


def _refusal(entry: Mapping[str, Any]) -> Refusal:
    return Refusal(
        entry["id"],
        entry["tenant"],
        entry["queue"],
        round(entry["submitted"] * 1000),
        entry["weight"],
        entry["priority"],
        entry["expression"],
        Code(entry["code"]),
        entry["detail"],
        None,
        tuple(entry["offers"]),
        asked_level(entry),
        entry.get("written", ""),
    )


def metrics_of(plan: Plan) -> Metrics:
    """Return the figures of a Plan; requests that no longer compile have no size."""
    outcomes = [_outcome(plan, number) for number in range(len(plan.table))]
    for refusal in plan.refusals:
        graph = _graph(plan, refusal.expression, refusal.submitted_ms)
        size = 0.0 if graph is None else size_of(graph, plan.cluster.reference)
        outcomes.append(RequestOutcome(refusal.weight, size, accepted=False))
    nominal, horizon = plan.cluster.nominal, plan.grid.horizon
    prices = prices_of(plan.cluster, plan.grid)
    return measure(outcomes, nominal, horizon, prices=prices)


def _outcome(plan: Plan, number: int) -> RequestOutcome:
    one = plan.table.read(number)
    graph = _graph(plan, one.expression, one.submitted_ms)
    held = tuple(
        (atom.bundle, rows)
        for atom in one.atoms
        if len(atom.rows)
        for _, rows in atom.occurrences()
    )
    size = 0.0 if graph is None else size_of(graph, plan.cluster.reference)
    worth = 1.0
    if graph is not None:
        paths = {atom.path.replace("@*", "@0") for atom in one.atoms if len(atom.rows)}
        numbered = vertices_by_path(graph)
        vertices = sorted({numbered[path] for path in paths if path in numbered})
        empty = [np.empty((0, 3), dtype=np.int64)] * len(vertices)
        worth = worth_of(graph, result_of(graph, vertices, empty).choices, plan.cluster.reference)
    return RequestOutcome(one.weight, size, one.state in _COUNTED, worth, held)


def _graph(plan: Plan, text: str, submitted_ms: int) -> WorkGraph | None:
    try:
        return compile_source(text, plan.cluster.context(plan.grid, submitted_ms))
    except RdlError:
        return None

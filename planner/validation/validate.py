"""The validator: check from the document only that every promise of a plan is kept.

It checks a whole plan document from scratch and shares no algorithm with the planners: rows and ids
in the format of files.md, each reservation by the oracle, capacity, fit caps and policies step by
step, slots machine by machine, and the metrics that can be recomputed. It lists all violations with
location and amount. It uses the compiler only for the window that a policy's limits are compared
with. Whether rows lie inside the requested windows is checked by the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Final, get_args

from planner.cluster.cluster import Cluster, ClusterError
from planner.files.workload_file import WorkloadLine, readable
from planner.placement import Code
from planner.validation.capacity import capacity_violations, fit_violations
from planner.validation.document import (
    Held,
    PlanViolation,
    UnreadableError,
    milliseconds,
    read_reservation,
)
from planner.validation.machines import NamedMachines, room_violations
from planner.validation.metrics import metrics_violations
from planner.validation.policies import policy_violations
from planner.validation.slot_rules import slot_violations
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Every, Expression
from rdl.oracle.satisfaction import check
from rdl.resources import MEMORY, Resources
from rdl.time_grid import TimeGrid, seconds_of

_EXPRESSIONS: Final = get_args(Expression)


def validate(
    document: Mapping[str, object],
    *,
    cluster: Cluster | None = None,
    grid: TimeGrid | None = None,
    asked: Iterable[str] | None = None,
    policies: bool = True,
    now_s: float | None = None,
) -> list[PlanViolation]:
    """Return all violations in a plan document, in document order; empty if it is valid.

    Parameters
    ----------
    document
        A plan in the format of files.md, parsed from JSON.
    cluster
        The cluster of the plan; by default the one in the document.
    grid
        The plan's grid if its horizon has advanced; by default the cluster's.
    asked
        Ids of all requests: each must have exactly one answer, and there may be no other answers.
    policies
        Whether to check the policies. Lowering a policy evicts no reservation, so a valid plan may
        exceed the current policies.
    now_s
        The current time in seconds from the origin; by default the document's, or 0. The machine of
        a slot that ended by then may have left the cluster.
    """
    try:
        cluster = _cluster_of(document) if cluster is None else cluster
        grid = cluster.grid() if grid is None else grid
    except (UnreadableError, ClusterError, ValueError) as error:
        return [PlanViolation("/cluster", "shape", str(error))]
    try:
        told = document.get("now", 0) if now_s is None else now_s
        now = grid.floor(milliseconds(told, "/now"))
    except UnreadableError as error:
        return [PlanViolation(error.where, error.rule, str(error))]
    held, found = _read(document, grid)
    found += _ids(document, asked)
    found += _refusals(document)
    found += _queues(held, cluster)
    found += [
        violation
        for reservation in held
        if (violation := _oracle(reservation, cluster, grid)) is not None
    ]
    found += capacity_violations(held, cluster, grid, now)
    found += fit_violations(held, cluster, grid, now)
    machines = NamedMachines(cluster, grid, now)
    found += slot_violations(held, machines)
    found += room_violations(held, machines)
    if policies:
        found += policy_violations(held, cluster, grid, now)
    return found + _metrics(document, held, cluster, grid)


def _cluster_of(document: Mapping[str, object]) -> Cluster:
    from planner.files import cluster_from_json

    return cluster_from_json(document.get("cluster"), "cluster")


def _read(document: Mapping[str, object], grid: TimeGrid) -> tuple[list[Held], list[PlanViolation]]:
    held: list[Held] = []
    found: list[PlanViolation] = []
    step_s = document.get("step_s")
    if step_s != grid.seconds(1):
        detail = f"a step is {grid.seconds(1)} s on this cluster, not {step_s!r}"
        found.append(PlanViolation("/step_s", "shape", detail))
    for key in ("reservations", "refusals"):
        if not isinstance(document.get(key), list):
            found.append(PlanViolation(f"/{key}", "shape", "must be a list"))
    for i, entry in enumerate(_entries(document, "reservations")):
        try:
            held.append(read_reservation(entry, f"/reservations/{i}", grid))
        except UnreadableError as error:
            name = entry.get("id") if isinstance(entry, Mapping) else None
            known = name if isinstance(name, str) else None
            found.append(PlanViolation(error.where, error.rule, str(error), known))
    return held, found


def _entries(document: Mapping[str, object], key: str) -> Sequence[object]:
    entries = document.get(key)
    return entries if isinstance(entries, list) else []


def _ids(document: Mapping[str, object], asked: Iterable[str] | None) -> list[PlanViolation]:
    """Check that reservations and refusals match the requests, each exactly once."""
    found: list[PlanViolation] = []
    seen: dict[str, str] = {}
    for key in ("reservations", "refusals"):
        for i, entry in enumerate(_entries(document, key)):
            where = f"/{key}/{i}/id"
            name = entry.get("id") if isinstance(entry, Mapping) else None
            if not isinstance(name, str) or not name:
                found.append(PlanViolation(where, "id", f"{name!r} is not an id"))
            elif name in seen:
                found.append(PlanViolation(where, "id", f"is the id of {seen[name]} too", name))
            else:
                seen[name] = where.removesuffix("/id")
    if asked is None:
        return found
    wanted = set(asked)
    found += [
        PlanViolation("/reservations", "id", "was requested and has no answer", name)
        for name in sorted(wanted - seen.keys())
    ]
    found += [
        PlanViolation(seen[name], "id", "was never asked", name)
        for name in sorted(seen.keys() - wanted)
    ]
    return found


def _refusals(document: Mapping[str, object]) -> list[PlanViolation]:
    """Check that each refusal has a known code and no allocation."""
    found: list[PlanViolation] = []
    for i, entry in enumerate(_entries(document, "refusals")):
        where = f"/refusals/{i}"
        if not isinstance(entry, Mapping):
            found.append(PlanViolation(where, "shape", "must be an object"))
            continue
        name = str(entry.get("id"))
        if entry.get("code") not in [code.value for code in Code]:
            detail = f"{entry.get('code')!r} is not a code of a refusal"
            found.append(PlanViolation(f"{where}/code", "state", detail, name))
        if "atoms" in entry or "choices" in entry:
            found.append(PlanViolation(where, "state", "a refusal has no atoms or choices", name))
    return found


def _queues(held: Sequence[Held], cluster: Cluster) -> list[PlanViolation]:
    reservable = {queue.name for queue in cluster.queues if queue.reservable}
    return [
        PlanViolation(
            f"{entry.where}/queue", "queue", f"{entry.queue!r} takes no reservations", entry.id
        )
        for entry in held
        if entry.queue not in reservable
    ]


def _places(cluster: Cluster, label: str | None, domain: str | None) -> int:
    """Return the number of machines with a label, or of domain values among them."""
    groups = [g for g in cluster.machines if g.count and (label is None or label in g.labels)]
    if domain is None:
        return sum(group.count for group in groups)
    return len({value for group in groups for name, value in group.domains if name == domain})


def _oracle(entry: Held, cluster: Cluster, grid: TimeGrid) -> PlanViolation | None:
    """Check the whole promise, including released parts, with the oracle."""
    if not entry.is_whole:
        return None
    allocation = {
        atom.path: _together(atom.rows.tolist(), atom.released.tolist()) for atom in entry.atoms
    }
    broken = check(
        entry.expression,
        grid,
        entry.submitted_ms,
        allocation,
        entry.choices,
        max_period_ms=cluster.max_period_ms,
        places=partial(_places, cluster),
        closed=entry.state == "completed",
    )
    if broken is None:
        return None
    detail = f"{broken.path or 'the request'}: {broken.rule}: {broken.detail}"
    return PlanViolation(entry.where, "oracle", detail, entry.id)


def _together(rows: list[list[int]], released: list[list[int]]) -> list[tuple[int, int, int]]:
    """Return the sum of two step functions given as rows."""
    changes: dict[int, int] = {}
    for start, end, bundles in (*rows, *released):
        changes[start] = changes.get(start, 0) + bundles
        changes[end] = changes.get(end, 0) - bundles
    whole: list[tuple[int, int, int]] = []
    height, since = 0, 0
    for at in sorted(changes):
        if changes[at] and height:
            whole.append((since, at, height))
        if changes[at]:
            height, since = height + changes[at], at
    return whole


def _metrics(
    document: Mapping[str, object], held: Sequence[Held], cluster: Cluster, grid: TimeGrid
) -> list[PlanViolation]:
    """Recompute the document's metrics if all of it is readable."""
    said = document.get("metrics")
    if not isinstance(said, Mapping) or len(held) != len(_entries(document, "reservations")):
        return []
    return metrics_violations(said, held, len(_entries(document, "refusals")), cluster, grid)


def asked_violations(
    document: Mapping[str, object], lines: Iterable[WorkloadLine]
) -> list[PlanViolation]:
    """Return the answers that differ from their request, in document order.

    A promise can be kept and still differ from the request: a later deadline, another tenant's
    account, a greater weight. `planner.validation.validate` checks for ids without an answer.

    Parameters
    ----------
    document
        A plan in the format of files.md, parsed from JSON.
    lines
        The workload.
    """
    asked = {line.id: line for line in lines}
    found: list[PlanViolation] = []
    for key in ("reservations", "refusals"):
        entries = document.get(key)
        for i, entry in enumerate(entries if isinstance(entries, list) else []):
            line = asked.get(str(entry.get("id"))) if isinstance(entry, Mapping) else None
            if line is not None:
                found += _differences(entry, f"/{key}/{i}", line)
                level = line.promise or (entry.get("promise") if key == "reservations" else None)
                if entry.get("promise") != level:
                    detail = f"is {entry.get('promise')!r}, not {level!r}"
                    where = f"/{key}/{i}/promise"
                    found.append(PlanViolation(where, "asked", detail, line.id))
    return found


def _differences(
    entry: Mapping[str, object], where: str, line: WorkloadLine
) -> list[PlanViolation]:
    wanted: dict[str, object] = {
        "tenant": line.tenant,
        "queue": line.queue,
        "submitted": seconds_of(line.submitted_ms),
        "weight": line.weight,
        "priority": line.priority,
        "expression": readable(line),
    }
    return [
        PlanViolation(f"{where}/{name}", "asked", f"is {entry.get(name)!r}, not {value!r}", line.id)
        for name, value in wanted.items()
        if entry.get(name) != value and not (name == "expression" and _is_as_written(entry, line))
    ]


def _is_as_written(entry: Mapping[str, object], line: WorkloadLine) -> bool:
    """Return whether an answer matches the line, possibly with a zone, dates or memory added."""
    written, expression = entry.get("written"), entry.get("expression")
    if written not in (line.source, readable(line)) or not isinstance(expression, str):
        return False
    try:
        return _adds_only(read_source(line.source), read_source(expression))
    except RdlError:
        return False


def _adds_only(asked: object, answered: object) -> bool:
    """Return whether an expression has all requested parts, plus only those a cluster adds."""
    if type(asked) is not type(answered):
        return False
    if isinstance(asked, tuple) and isinstance(answered, tuple):
        pairs = zip(asked, answered, strict=False)
        return len(asked) == len(answered) and all(_adds_only(*pair) for pair in pairs)
    if not isinstance(asked, _EXPRESSIONS):
        return asked == answered
    for name in (one.name for one in fields(asked) if one.compare):
        old, new = getattr(asked, name), getattr(answered, name)
        if isinstance(asked, Every) and name in ("without", "holidays"):
            named = asked.holidays is not None
            extra = named and (set(new) >= set(old) if name == "without" else new is None)
            if not (extra or old == new):
                return False
        elif name == "zone":
            if old is not None and old != new:
                return False
        elif name == "bundle":
            if MEMORY not in old:
                new = Resources.of({key: amount for key, amount in new.items() if key != MEMORY})
            if old != new:
                return False
        elif not _adds_only(old, new):
            return False
    return True

"""The skylines of compared Plans: on one axis of time, with the same tenants in the same order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster
from planner.workload.compare import AgentRun
from rdl.durations import rfc3339_text
from rdl.resources import CPU, MEMORY, Resources

#: Most buckets of time, and most tenants that are shown apart; the others are one layer.
MOST_BUCKETS: Final = 288
MOST_TENANTS: Final = 11

#: Unit of a resource, and how much of what is planned makes one.
_UNITS: Final = {CPU: ("cores", 1000), MEMORY: ("MiB", 1)}

_Ints = NDArray[np.int64]

#: Tenant, resource, first step, step past the last, amount.
_Row: TypeAlias = tuple[str, str, int, int, int]


def comparison_skylines(cluster: Cluster, runs: Sequence[AgentRun]) -> dict[str, Any]:
    """Return what each agent's Plan holds of each resource over time, tenant by tenant.

    Of a bucket the mean counts: areas stay exact. Time is what any of the Plans uses.

    Returns
    -------
    dict
        ``from``, ``to``, ``step`` (seconds from ``origin``); ``tenants`` (None: all others), those
        that hold most cpu first; ``resources`` with ``unit`` and ``capacity``; ``agents``, by name
        and resource one list of amounts a tenant.
    """
    rows = {run.agent: list(_rows_of(run, cluster)) for run in runs if run.document is not None}
    tenants = _largest(rows)
    every = [row for found in rows.values() for row in found]
    first = min((row[2] for row in every), default=0)
    end = max((row[3] for row in every), default=first + 1)
    bucket = -(-(end - first) // MOST_BUCKETS)
    edges = np.arange(0, end - first, bucket)
    calendar = calendar_of(cluster, first, end)
    held = [name for name in cluster.resources if any(row[1] == name for row in every)]
    resources = {}
    for name in held:
        capacity = calendar.dense(calendar.capacity(name))
        unit, size = _UNITS.get(name, ("units", 1))
        resources[name] = {"unit": unit, "capacity": _means(capacity, edges, size)}
    span = (first, end)
    drawn = {
        agent: {name: _layers(found, name, tenants, span, edges) for name in held}
        for agent, found in rows.items()
    }
    grid = cluster.grid()
    return {
        "origin": rfc3339_text(grid.instant_at(0)),
        "from": grid.seconds(first),
        "to": grid.seconds(end),
        "step": grid.seconds(bucket),
        "tenants": tenants,
        "resources": resources,
        "agents": drawn,
    }


def _rows_of(run: AgentRun, cluster: Cluster) -> Iterator[_Row]:
    assert run.document is not None
    for reservation in run.document.reservations:
        for atom in reservation["atoms"]:
            bundle = Resources.from_json(atom["bundle"])
            for start, end, count in atom["allocation"]:
                first = round(start * 1000) // cluster.step_ms
                last = round(end * 1000) // cluster.step_ms
                for name, amount in bundle.items():
                    yield reservation["tenant"], name, first, last, amount * count


def _largest(rows: Mapping[str, Sequence[_Row]]) -> list[str | None]:
    """Return the tenants that hold most, the largest first, and None where others are left."""
    held: Counter[str] = Counter()
    for found in rows.values():
        for tenant, name, first, last, amount in found:
            held[tenant] += amount * (last - first) if name == CPU else 0
    order = sorted(held, key=lambda tenant: (-held[tenant], tenant))
    few: list[str | None] = [*order[:MOST_TENANTS]]
    return [*few, None] if len(order) > MOST_TENANTS else few


def _layers(
    rows: Sequence[_Row],
    resource: str,
    tenants: Sequence[str | None],
    span: tuple[int, int],
    edges: _Ints,
) -> list[list[float]]:
    """Return the means of one resource in each bucket, one list a tenant."""
    size = _UNITS.get(resource, ("units", 1))[1]
    place = {tenant: number for number, tenant in enumerate(tenants)}
    own: list[list[tuple[int, int, int]]] = [[] for _ in tenants]
    for tenant, name, first, last, amount in rows:
        if name == resource:
            layer = own[place.get(tenant, len(tenants) - 1)]
            layer.append((first - span[0], last - span[0], amount))
    return [_means(_steps(layer, span[1] - span[0]), edges, size) for layer in own]


def _steps(rows: Sequence[tuple[int, int, int]], steps: int) -> _Ints:
    """Return int64[steps]: what rows of (first step, step past the last, amount) add up to."""
    changes = np.zeros(steps + 1, dtype=np.int64)
    if rows:
        first, last, amount = np.array(rows, dtype=np.int64).T
        np.add.at(changes, first, amount)
        np.subtract.at(changes, last, amount)
    held: _Ints = np.cumsum(changes[:-1])
    return held


def _means(steps: _Ints, edges: _Ints, size: int) -> list[float]:
    lengths = np.diff(np.append(edges, len(steps)))
    means = np.add.reduceat(steps, edges) / lengths / size
    found: list[float] = np.round(means, 2).tolist()
    return found

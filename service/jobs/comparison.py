"""The process that compares: ``python -m service.jobs.comparison``.

It plans the requests of a day with several agents, on its own copy of the Plan, and writes its row.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as release
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine, read_line
from planner.metrics import Metrics, count_falls
from planner.optimization.plan_bound import RequestBook, bound_of, read_plan
from planner.plan.plan import Plan
from planner.reservations.state import State
from planner.value import relative_gap
from planner.workload.compare import AS_IT_STANDS, BY_ARRIVAL, AgentRun
from planner.workload.compile import compile_workload
from rdl.durations import rfc3339_text
from rdl.resources import CPU, MEMORY, Resources
from service.jobs.job import ComparisonJob, lines_of_plan, whole_cluster
from service.jobs.process import JobCall, carry_out
from service.jobs.tasks import bare_limits, compare_on

#: Most time buckets, and most tenants shown separately; the others are one layer.
MOST_BUCKETS: Final = 288
MOST_TENANTS: Final = 11

#: Unit of a resource, and the canonical amount per unit.
_UNITS: Final = {CPU: ("cores", 1000), MEMORY: ("MiB", 1)}

_Ints = NDArray[np.int64]

#: Tenant, resource, first step, step after the last, amount.
_Row: TypeAlias = tuple[str, str, int, int, int]


def comparison_skylines(cluster: Cluster, runs: Sequence[AgentRun]) -> dict[str, Any]:
    """Return the use of each resource over time in each agent's Plan, by tenant.

    Buckets have means, so that areas are exact. The time covers all of the Plans.

    Returns
    -------
    dict
        ``from``, ``to``, ``step`` (seconds from ``origin``); ``tenants`` (None: all others), by CPU
        use, largest first; ``resources`` with ``unit`` and ``capacity``; ``agents``, by name and
        resource one list of amounts per tenant.
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
    """Return the tenants with the largest use, largest first, and None if there are others."""
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
    """Return the means of one resource in each bucket, one list per tenant."""
    size = _UNITS.get(resource, ("units", 1))[1]
    place = {tenant: number for number, tenant in enumerate(tenants)}
    own: list[list[tuple[int, int, int]]] = [[] for _ in tenants]
    for tenant, name, first, last, amount in rows:
        if name == resource:
            layer = own[place.get(tenant, len(tenants) - 1)]
            layer.append((first - span[0], last - span[0], amount))
    return [_means(_steps(layer, span[1] - span[0]), edges, size) for layer in own]


def _steps(rows: Sequence[tuple[int, int, int]], steps: int) -> _Ints:
    """Return int64[steps]: the sum of rows of (first step, step after the last, amount)."""
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


#: States in which the whole request is reserved.
WHOLE: Final = (State.ACCEPTED, State.ACTIVE)

_TOO_MANY: Final = "the Plan has too many requests for a bound"


def _compare(call: JobCall) -> None:
    asked, reporter = msgspec.json.decode(call.asked, type=ComparisonJob), call.reporter
    call.replica.replay()
    with call.replica.newest() as plan:
        twin = plan.copy()
    reporter.enter("comparing", twin.version)
    cluster, lines = _day_of(twin, asked)
    day = (cluster, compile_workload(lines, cluster))
    based_on = None if asked.workload is not None else twin.version
    done = kept_runs(call.kept, based_on)

    def keep(run: AgentRun) -> None:
        if reporter.stop():  # it may have been stopped early
            return
        done[run.agent] = run
        reporter.keep(msgspec.json.encode({"runs": written_runs(done, based_on)}))
        reporter.enter(f"{len(done)} of {len(rows)} rows are done", twin.version)

    rows = asked.agents
    if asked.workload is None:
        rows = (*(name + BY_ARRIVAL for name in asked.agents), *asked.agents)
    limits = bare_limits(rows, asked.time_s, asked.seed)
    found = compare_on(call.workers, day, limits, reporter.stop, dict(done), keep)
    if asked.workload is None:
        found = replace(found, runs=(_as_it_stands(twin), *found.runs))
    result: dict[str, Any] = {"based_on": twin.version, "requests": len(lines), **found.to_json()}
    result["skylines"] = comparison_skylines(cluster, found.runs)
    if reporter.stop():
        result["runs"] = written_runs(done, based_on)
    reporter.ended_with(msgspec.json.encode(result), "what was done")


def _as_it_stands(plan: Plan) -> AgentRun:
    """Return the row of the Plan itself: value and bound as in `GET /v1/plan/bound`."""
    book = RequestBook()
    reading = read_plan(plan, book)
    while reading is None:
        reading = read_plan(plan, book)
    known = bound_of(reading, book)
    if known.value is None or known.total is None:
        return AgentRun("as it is", known.proof, _TOO_MANY, basis=AS_IT_STANDS)
    whole = [one for one in plan.reservations() if one.state in WHOLE]
    falls, inner = count_falls(
        atom.all_rows() for one in whole for atom in one.atoms if len(atom.rows)
    )
    metrics = Metrics(
        runtime_ms=0.0,
        acceptance=known.value / known.total if known.total > 0 else None,
        accepted=known.holders,
        requests=known.holders + known.candidates,
        falls=falls,
        falls_inner=inner,
        uniformity=None,
        value=known.value,
        bound=known.bound,
        gap=None if known.bound is None else relative_gap(known.value, known.bound),
    )
    return AgentRun("as it is", "placed", "", metrics, basis=AS_IT_STANDS)


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """Runs of agents for another process to continue with.

    Attributes
    ----------
    agenda
        The version of Agenda that computed them.
    based_on
        The version of the Plan whose requests they planned; None for a workload.
    runs
        Runs by the agent's name.
    """

    agenda: str
    based_on: int | None
    runs: dict[str, AgentRun]


def written_runs(runs: Mapping[str, AgentRun], based_on: int | None) -> KeptRuns:
    """Return runs for `kept_runs`; `based_on` is the version of their Plan."""
    return KeptRuns(release("cluster-agenda"), based_on, dict(runs))


def kept_runs(kept: bytes, based_on: int | None) -> dict[str, AgentRun]:
    """Return the runs stored by an earlier process.

    Empty if they are for other requests, or from another version of Agenda.
    """
    written = msgspec.json.decode(kept).get("runs") if kept else None
    if not isinstance(written, dict) or written.get("agenda") != release("cluster-agenda"):
        return {}
    found = msgspec.convert(written, KeptRuns)
    return found.runs if found.based_on == based_on else {}


def _day_of(plan: Plan, asked: ComparisonJob) -> tuple[Cluster, list[WorkloadLine]]:
    """Return the cluster and the requests to compare."""
    if asked.workload is None:
        return whole_cluster(plan), list(lines_of_plan(plan, asked.since_ms))
    origin = plan.cluster.origin
    lines = [read_line(one, number, origin) for number, one in enumerate(asked.workload, 1)]
    return plan.cluster, lines


if __name__ == "__main__":
    sys.exit(carry_out(_compare))

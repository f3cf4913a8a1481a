"""`machine_loss`: what promises on named machines cost of what totals have capacity for.

Sets: the Facebook day's first 1,500 jobs on 16, 24 and 40 machines, the KTH SP2's first 1,500 jobs
as gangs, YARN's thousand requests, the example day, and generated workflows, mixed requests and
large bundles. Each is planned as one batch and, by agents that answer one by one, by arrival, with
machines promised and with totals alone; every plan on machines is judged by the validator.

`work` and `requests` are shares of what was asked. A lease move is a bundle that leaves its machine
at a step at which a bundle of the same atom begins on another one; `moves` is their share of all
leases that were promised (the work over the steps of a lease). Target: at most 0.02, and a loss of
work of at most 0.01.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.cases.planning.yarn_stress import stress_cluster, stress_workload
from bench.workloads.generator import Mix, cluster_of, requests_of
from bench.workloads.large_pieces import LargePieces, large_pieces
from bench.workloads.traces import Day, kth_gangs, swim_day, traces_folder
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files import read_cluster, read_workload
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import leases_of
from planner.reservations.reservation import Holding
from planner.reservations.rows import add_up
from planner.reservations.slots import pieces_of
from planner.validation.validate import validate
from planner.value import size_of
from planner.workload.compile import CompiledWorkload, compile_workload
from planner.workload.plan import Planned, plan_by_arrival, plan_from_nothing

NAME = "machine_loss"

AGENTS: Final = ("gree-l", "headroom", "portfolio")
MACHINES: Final = (16, 24, 40)
JOBS: Final = 1500
MIX: Final = Mix(requests=200, steps=480, machines=24)
EXAMPLE_DAY: Final = Path(__file__).parents[3] / "fixtures" / "example-day"

_Set = tuple[Cluster, CompiledWorkload]


def run(small: bool) -> dict[str, object]:
    """Plan every set with every agent at both levels; small: one set of 40 requests."""
    figures: dict[str, object] = {}
    for name, make in _sets(small):
        cluster, workload = make()
        for agent in AGENTS:
            ways = ("batch",) if agent == "portfolio" else ("batch", "arrival")
            for way in ways:
                figures[f"{name}, {agent}, {way}"] = _compared(cluster, workload, agent, way)
    return {"params": {"agents": AGENTS, "jobs": JOBS}, "figures": figures}


def _sets(small: bool) -> Iterator[tuple[str, Callable[[], _Set]]]:
    if small:
        yield "mixed", partial(_generated, replace(MIX, requests=40, steps=120, kind="mixed"))
        return
    folder = traces_folder()
    if folder is not None:
        for count in MACHINES:
            yield f"facebook {count}", partial(_day, partial(swim_day, folder, count, JOBS))
        yield "kth", partial(_day, partial(kth_gangs, folder, JOBS))
    yield "yarn", _yarn
    yield "example day", _example_day
    for kind in ("workflows", "mixed"):
        yield kind, partial(_generated, replace(MIX, kind=kind))
    yield "large bundles", _large


def _day(read: Callable[[], Day]) -> _Set:
    day = read()
    return day.cluster, compile_workload(day.lines, day.cluster)


def _yarn() -> _Set:
    cluster = stress_cluster()
    return cluster, stress_workload(cluster, 1000)


def _example_day() -> _Set:
    cluster = read_cluster(EXAMPLE_DAY / "cluster.toml")
    return cluster, compile_workload(read_workload(EXAMPLE_DAY / "workload.jsonl"), cluster)


def _generated(mix: Mix) -> _Set:
    return _compiled(cluster_of(mix), requests_of(mix))


def _large() -> _Set:
    return _compiled(*large_pieces(LargePieces()))


def _compiled(cluster: Cluster, requests: Sequence[Request]) -> _Set:
    positions = tuple(range(len(requests)))
    return cluster, CompiledWorkload(cluster.grid(), tuple(requests), positions, ())


def _compared(cluster: Cluster, workload: CompiledWorkload, name: str, way: str) -> object:
    """Return shares of work and requests on totals and on machines, and how often bundles move."""
    found: dict[str, object] = {}
    for level in (PromiseLevel.POOLED, PromiseLevel.PLACED):
        asked = replace(cluster, promise=level)
        plan = plan_from_nothing if way == "batch" else plan_by_arrival
        began = time.process_time()
        planned = plan(asked, workload, agent_named(name))
        seconds = time.process_time() - began
        work, requests = _shares(workload, planned, cluster)
        found[f"{level.value}_work"] = round(work, 4)
        found[f"{level.value}_requests"] = round(requests, 4)
        found[f"{level.value}_s"] = round(seconds, 2)
    _judge(planned)
    moves, leases = _moves(workload, planned)
    whole = float(str(found["pooled_work"]))
    found["loss"] = round(1 - float(str(found["placed_work"])) / whole, 4) if whole else 0.0
    found["moves"] = round(moves / max(1, leases), 4)
    found["moved_bundles"] = moves
    return found


def _judge(planned: Planned) -> None:
    """Raise AssertionError if the validator finds a promise that a plan breaks."""
    violations = validate(planned.document.to_json())
    if violations:
        raise AssertionError(f"{len(violations)} violations, the first: {violations[0]}")


def _shares(workload: CompiledWorkload, planned: Planned, cluster: Cluster) -> tuple[float, float]:
    sizes = [size_of(request.graph, cluster.reference) for request in workload.requests]
    taken = [one.placed for one in planned.results]
    work = sum(size for size, placed in zip(sizes, taken, strict=True) if placed)
    return work / max(1e-9, sum(sizes)), sum(taken) / max(1, len(taken))


def _moves(workload: CompiledWorkload, planned: Planned) -> tuple[int, int]:
    """Return how many bundles move at the end of a lease, and how many leases there are."""
    leases = {one.id: leases_of(one.graph) for one in workload.requests}
    moves = count = 0
    table = planned.plan.table
    for ordinal in range(len(table)):
        number = table.number_at(ordinal)
        holding, own = table.holding(number), leases[table.id_of(number)]
        moves += lease_moves(holding)
        for atom in holding.atoms:
            work = int(((atom.rows[:, 1] - atom.rows[:, 0]) * atom.rows[:, 2]).sum())
            count += work * len(atom.shifts) // max(1, own.get(atom.path, 1))
    return moves, count


def lease_moves(holding: Holding) -> int:
    """Return how many bundles of a holding continue on another machine."""
    moves = 0
    for atom in holding.atoms:
        for (_, rows), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True):
            if slots is None or not len(slots):
                continue
            stays = sum(
                int(pieces_of(add_up(slots[slots[:, 3] == machine][:, :3]))[:, 2].sum())
                for machine in set(slots[:, 3].tolist())
            )
            moves += stays - int(pieces_of(rows)[:, 2].sum())
    return moves

"""Events a second of the machine-level loop, and what ten times the machines cost a dispatch."""

from __future__ import annotations

import time

import numpy as np

from bench.cases.dispatch.lotes_offline import published
from bench.papers.machines.simulator import MachineSimulator
from bench.papers.machines.workload import PoissonWorkload
from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from lp.lotes.instance import LotesInstance
from lp.lotes.pipeline import LotesResult, plan_lotes

NAME = "lotes_sim"
LOAD = 0.9
SIZES = (1_000, 10_000)


def run(small: bool) -> dict[str, object]:
    """Events per second of processor time once the cluster is full; best of the chunks.

    Processor time leaves out what other processes take; the reference is a plain sort of floats.
    """
    policies: tuple[Policy, ...] = ("lotes", "greedy") if small else ("lotes", "greedy", "tetris")
    figures: dict[str, object] = {"reference_sort_ns": _reference()}
    cost: dict[tuple[str, int], float] = {}
    for size in SIZES:
        whole = published()
        machines = whole.configurations.with_share(size / whole.configurations.machines)
        planned = plan_lotes(LotesInstance.of(machines, whole.classes))
        for policy in policies:
            nanoseconds, running = _cost(planned, policy, small)
            cost[policy, size] = nanoseconds
            figures[f"{policy}_{size}_events_per_s"] = 1e9 / nanoseconds
            figures[f"{policy}_{size}_running"] = running
    for policy in policies:
        ratio = cost[policy, SIZES[1]] / cost[policy, SIZES[0]]
        figures[f"{policy}_cost_ratio_10000_to_1000"] = ratio
    return {"params": {"load": LOAD, "machines": list(SIZES), "small": small}, "figures": figures}


def _cost(planned: LotesResult, policy: Policy, small: bool) -> tuple[float, int]:
    """Nanoseconds an event in the best chunk after the cluster has filled, and jobs running."""
    rate = LOAD * planned.arrival_rate
    classes = planned.instance.classes
    # The longest class takes 0.04 h: after 0.2 h the number of running jobs has settled.
    measured = 200_000 if small or policy == "tetris" else 2_000_000
    workload = PoissonWorkload(classes, rate, 0.2 + measured / rate, chunk=32_768)
    jobs_rng, wheel_rng = np.random.default_rng(1).spawn(2)
    simulator = MachineSimulator(
        Machines.of_table(planned.table), np.ones(planned.table.wheel.shape), policy, planned.table
    )
    best = np.inf
    for chunk in workload.chunks(jobs_rng):
        draw = wheel_rng.random(chunk.arrival_h.size)
        before = simulator.result().events
        began = time.process_time()
        simulator.feed(chunk, draw)
        spent = time.process_time() - began
        events = simulator.result().events - before
        if chunk.arrival_h.size and chunk.arrival_h[0] > 0.2:
            best = min(best, spent / events * 1e9)
    return best, simulator.result().running_now


def _reference() -> float:
    """Nanoseconds an element to sort a million floats, for comparing machines."""
    values = np.random.default_rng(0).random(1_000_000)
    began = time.process_time()
    np.sort(values)
    return (time.process_time() - began) * 1e3

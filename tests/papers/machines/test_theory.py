"""Queueing theory: waits and occupancies against closed forms, within stated intervals.

Each claim uses independent replications; the interval is Student's at 99.9 % over their means, so
a correct simulator fails one such test in a thousand, and the seeds are fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bench.papers.machines.measures import SimulationOptions, SimulationResult
from bench.papers.machines.simulator import simulate
from bench.papers.machines.workload import PoissonWorkload
from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from lp.lotes.instance import JobClasses

REPLICATIONS = 12
JOBS = 80_000


def runs(
    servers: int, rate: float, policy: Policy, *, exponential: bool = True, spread: bool = False
) -> list[SimulationResult]:
    """Replications of unit jobs with mean time 1 h, on one machine of c or on c machines of one."""
    count, size = (servers, 1.0) if spread else (1, float(servers))
    machines = Machines(np.array([count]), np.array([[size, size]]))
    classes = JobClasses.of([1.0], [[1.0, 1.0]], [1.0])
    workload = PoissonWorkload(
        classes, rate, 200.0 + JOBS / rate, variation=0.0, exponential=exponential
    )
    options = SimulationOptions(warm_up_h=200.0, horizon_h=200.0 + JOBS / rate)
    seeds = np.random.default_rng(20_11).spawn(REPLICATIONS)
    return [simulate(machines, workload, policy, seed, options=options) for seed in seeds]


def assert_mean(found: list[float], expected: float) -> None:
    """The 99.9 % interval of the replications' mean covers the closed form and is narrow."""
    mean, error = np.mean(found), stats.sem(found)
    margin = stats.t.ppf(0.9995, len(found) - 1) * error
    assert abs(mean - expected) <= margin
    assert margin <= 0.1 * expected


def erlang_c(servers: int, load: float) -> float:
    """Probability that an arrival waits in M/M/c."""
    terms = [load**n / math.factorial(n) for n in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (5, 4.0), (20, 17.0)])
@pytest.mark.parametrize(("policy", "spread"), [("best_fit", False), ("spread", True)])
def test_mean_wait_of_mmc(servers: int, load: float, policy: Policy, spread: bool) -> None:
    """M/M/c: mean wait C(c, a) / (c - a), on one large machine and on c small ones."""
    found = runs(servers, load, policy, spread=spread)
    expected = erlang_c(servers, load) / (servers - load)
    assert_mean([run.wait_mean_h for run in found], expected)
    assert_mean([run.running_mean for run in found], load)
    # Little's law joins two measurements made in different ways.
    assert_mean([run.waiting_mean for run in found], load * expected)


def test_mean_wait_of_md1() -> None:
    """M/D/1: deterministic times halve the wait of M/M/1 (Pollaczek and Khinchine)."""
    found = runs(1, 0.7, "best_fit", exponential=False)
    assert_mean([run.wait_mean_h for run in found], 0.7 / (2 * 0.3))


@pytest.mark.parametrize("exponential", [True, False])
def test_mginf_never_waits(exponential: bool) -> None:
    """M/G/inf: with capacity for everybody no one waits and lambda E[S] jobs run on average."""
    found = runs(500, 40.0, "greedy", exponential=exponential)
    assert all(run.wait_max_h == 0.0 and run.still_waiting == 0 for run in found)
    assert_mean([run.running_mean for run in found], 40.0)


def test_greedy_queues_at_machines_wait_longer_than_one_queue() -> None:
    """Choosing a queue at arrival cannot beat one common queue: more wait than M/M/c."""
    found = [run.wait_mean_h for run in runs(5, 4.0, "greedy", spread=True)]
    assert np.mean(found) > erlang_c(5, 4.0) / (5 - 4.0)

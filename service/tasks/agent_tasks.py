"""Agents side by side on one workload, each a task of a pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.workload.compare import (
    ARRIVAL,
    BY_ARRIVAL,
    HINDSIGHT,
    AgentRun,
    Comparison,
    comparison_of,
    recorded_run,
    run_agent,
    run_without_turn,
)
from planner.workload.compile import CompiledWorkload
from planner.workload.warm_up import load_kernels
from service.tasks.task_pool import PoolTask, PoolWatch, TaskLink, TaskPool


def compare_on(
    pool: TaskPool,
    day: tuple[Cluster, CompiledWorkload],
    limits: Mapping[str, Limits],
    stop: Callable[[], bool],
    done: Mapping[str, AgentRun] | None = None,
    tell: Callable[[AgentRun], None] | None = None,
) -> Comparison:
    """Plan a day with each agent on a pool; after a stop with those that had begun.

    Parameters
    ----------
    limits
        Of each row, by the agent's name, with `BY_ARRIVAL` after it for one that answers requests
        one by one, in the order of the rows; `stop` and what they report are left out.
    done
        Runs of agents that were made before, by name.
    tell
        Called with each run as it ends.
    """
    runs = dict(done or {})
    left = [name for name in limits if name not in runs]
    tasks = [PoolTask(name, partial(_plan_day, day, name, limits[name])) for name in left]
    for index, run in pool.run(tasks, PoolWatch(stop)):
        runs[left[index]] = run
        if tell is not None:
            tell(run)
    rows = [runs.get(name) or run_without_turn(name) for name in limits]
    return comparison_of(rows, recorded_run(*day))


def bare_limits(
    names: Sequence[str], time_s: float | None, seed: int, times: Mapping[str, float] | None = None
) -> dict[str, Limits]:
    """Return the limits of each agent; `times` are seconds of some, in place of `time_s`."""
    own = times or {}
    return {name: Limits(time_s=own.get(name, time_s), seed=seed) for name in names}


def _plan_day(
    day: tuple[Cluster, CompiledWorkload], name: str, limits: Limits, link: TaskLink
) -> AgentRun:
    load_kernels()
    own = Limits(time_s=limits.time_s, seed=limits.seed, stop=link.stop)
    basis = ARRIVAL if name.endswith(BY_ARRIVAL) else HINDSIGHT
    return run_agent(*day, agent_named(name.removesuffix(BY_ARRIVAL)), own, basis=basis)

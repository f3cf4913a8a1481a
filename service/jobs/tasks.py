"""Tasks for workers: each agent of a comparison, and the optimisation of a Plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.optimization.codec import change_to_json, changes_from_json
from planner.optimization.objective import Objective
from planner.optimization.optimizer import optimize
from planner.optimization.result import (
    Optimized,
    OptimizeOptions,
    OptimizeProgress,
    OptimizeScope,
)
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Change
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
from service.jobs.executors import Link, Workers, answers_of


def compare_on(
    workers: Workers | None,
    day: tuple[Cluster, CompiledWorkload],
    limits: Mapping[str, Limits],
    stop: Callable[[], bool],
    done: Mapping[str, AgentRun] | None = None,
    tell: Callable[[AgentRun], None] | None = None,
) -> Comparison:
    """Plan a day with each agent on workers; after a stop only with those that have begun.

    Parameters
    ----------
    limits
        Limits of each row, in order, by the agent's name, with the suffix `BY_ARRIVAL` for one that
        answers requests one by one; without `stop` and callbacks.
    done
        Earlier runs of agents, by name.
    tell
        Called with each run as it ends.
    """
    runs = dict(done or {})
    left = [name for name in limits if name not in runs]
    tasks = [(name, partial(_plan_day, day, name, limits[name])) for name in left]
    for index, run in answers_of(tasks, workers, Link(stop)):
        runs[left[index]] = run
        if tell is not None:
            tell(run)
    rows = [runs.get(name) or run_without_turn(name) for name in limits]
    return comparison_of(rows, recorded_run(*day))


def bare_limits(
    names: Sequence[str], time_s: float | None, seed: int, times: Mapping[str, float] | None = None
) -> dict[str, Limits]:
    """Return the limits of each agent; `times` overrides `time_s` for some."""
    own = times or {}
    return {name: Limits(time_s=own.get(name, time_s), seed=seed) for name in names}


def _plan_day(
    day: tuple[Cluster, CompiledWorkload], name: str, limits: Limits, link: Link
) -> AgentRun:
    load_kernels()
    own = Limits(time_s=limits.time_s, seed=limits.seed, stop=link.stop)
    basis = ARRIVAL if name.endswith(BY_ARRIVAL) else HINDSIGHT
    return run_agent(*day, agent_named(name.removesuffix(BY_ARRIVAL)), own, basis=basis)


#: Least seconds between two plans stored in case the worker dies, also as a multiple of the time to
#: create one.
_KEEP_S: Final = 2.0
_KEEP_FACTOR: Final = 10


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """The best plan so far, as a state to continue from.

    Attributes
    ----------
    changes
        Changes to a Plan, plain JSON.
    elapsed_s
        Total time of all runs, in seconds.
    """

    changes: tuple[dict[str, Any], ...]
    elapsed_s: float


def improve_on(
    workers: Workers | None,
    plan: Plan,
    objective: Objective,
    scope: OptimizeScope,
    options: OptimizeOptions,
    kept: KeptPlan | None = None,
    keep: Callable[[KeptPlan], None] | None = None,
) -> Optimized:
    """Optimise on workers, like `planner.optimization.optimizer.optimize` in this process.

    Parameters
    ----------
    options
        `tell` and `limits.stop` are called here; `start` and `keep` are ignored.
    kept, keep
        State of an earlier run to start from; and the function that stores states of this one.
    """
    limits = options.limits
    bare = OptimizeOptions(replace(limits, stop=None, progress=None, news=None), options.solver)
    raw = take_checkpoint(plan).encode()
    task = partial(_improve, raw, objective, scope, bare, kept)
    ours = Link(limits.stop or bool, options.tell or Link().tell, keep or Link().keep)
    answers = dict(answers_of([("optimisation", task)], workers, ours))
    # Stopped before a worker had time for it: the Plan stays unchanged.
    nothing = Optimized(based_on=plan.version, status="stopped")
    found: Optimized = answers.get(0, nothing)
    return found


def _improve(
    raw: bytes,
    objective: Objective,
    scope: OptimizeScope,
    options: OptimizeOptions,
    earlier: KeptPlan | None,
    link: Link,
) -> Optimized:
    """Improve the Plan of a checkpoint; continue from the state of an earlier run."""
    load_kernels()
    plan = read_checkpoint(raw)
    kept: KeptPlan | None = link.kept or earlier
    before_s = 0.0 if kept is None else kept.elapsed_s
    keeper = _PlanKeeper(plan, link, before_s)
    limits = replace(options.limits, stop=keeper.stop)
    if limits.time_s is not None:
        limits = replace(limits, time_s=max(0.0, limits.time_s - before_s))
    starts = () if kept is None else (tuple(changes_from_json(kept.changes, plan)[0]),)

    def tell(now: OptimizeProgress) -> None:
        link.tell(replace(now, elapsed_s=before_s + now.elapsed_s))

    return optimize(
        plan,
        objective,
        scope,
        OptimizeOptions(limits, options.solver, tell, starts, keep=keeper.consider),
    )


class _PlanKeeper:
    """Stores better plans, at most every few seconds.

    A plan that comes too soon after another is stored at a later check for a stop, because there
    may be no better plan for a long time.
    """

    def __init__(
        self,
        plan: Plan,
        link: Link,
        before_s: float,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan, self._link, self._steady_s = plan, link, steady_s
        self._began = steady_s() - before_s
        self._due = float("-inf")
        self._newest: Callable[[], list[Change]] | None = None
        self._lock = threading.Lock()

    def consider(self, changes_of: Callable[[], list[Change]]) -> None:
        """Store a plan as soon as it is due."""
        with self._lock:
            self._newest = changes_of
            self._keep_if_due()

    def stop(self) -> bool:
        """Store a due plan, and return whether the task should end with the best result so far."""
        if self._newest is not None:
            with self._lock:
                self._keep_if_due()
        return self._link.stop()

    def _keep_if_due(self) -> None:
        now, newest = self._steady_s(), self._newest
        if newest is None or now < self._due:
            return
        self._newest = None
        written = tuple(change_to_json(one, self._plan.cluster) for one in newest())
        self._link.keep(KeptPlan(written, now - self._began))
        took_s = self._steady_s() - now
        self._due = now + max(_KEEP_S, _KEEP_FACTOR * took_s)

"""What a promise is worth: totals or machines.

Requests come one by one to a real Plan that promises `pooled` or `placed`, planned by a real agent.
Then the dispatcher carries out everything that was accepted, with nothing else on the cluster; work
stays on the machine where it began. A reservation that is below its entitlement for longer than a
tick is a broken promise. What has slots goes where they are; the rest goes where a strategy puts
it, as time comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dispatch.cycle.options import DispatchOptions
from dispatch.machines.placement.policy import Policy
from dispatch.simulation.admission import admit_in_turn
from dispatch.simulation.experiments.promise_requests import (
    CASES,
    PromiseCase,
    PromiseOptions,
    draw_requests,
    promise_cluster,
    work_of,
)
from dispatch.simulation.plan_run import run_plan
from dispatch.simulation.spread import Figure, figures_json, figures_over_seeds
from planner.agents import agent_named
from planner.plan.plan import Plan
from planner.promise import PromiseLevel

STRATEGIES: Final[tuple[Policy, ...]] = ("best_fit", "spread")

#: Case, level and strategy.
RowKey = tuple[str, str, str]
#: Figures of one seed.
SeedFigures = dict[RowKey, dict[str, float]]


@dataclass(frozen=True, slots=True)
class PromiseTable:
    """Figures by case, level and strategy; mean and spread over seeds."""

    params: dict[str, object]
    rows: dict[RowKey, dict[str, Figure]]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "experiment": "promise-levels",
            "params": self.params,
            "rows": [
                {
                    "case": case,
                    "level": level,
                    "strategy": strategy,
                    "figures": figures_json(figures),
                }
                for (case, level, strategy), figures in self.rows.items()
            ],
        }


def run_promise_seed(options: PromiseOptions, seed: int) -> SeedFigures:
    """Admit the same requests under each level, and carry out what was accepted."""
    found: SeedFigures = {}
    for name, case in CASES.items():
        for level in (PromiseLevel.POOLED, PromiseLevel.PLACED):
            promised = admit_all(options, level, case, seed)
            if level is PromiseLevel.PLACED:
                found[name, level.value, "its slots"] = promised.figures(STRATEGIES[0])
                continue
            for policy in STRATEGIES:
                found[name, level.value, policy] = promised.figures(policy)
    return found


def promise_table(options: PromiseOptions, runs: Sequence[SeedFigures]) -> PromiseTable:
    """Return mean and spread over the seeds that were run, the first of `options.seeds`."""
    rows = {row: figures_over_seeds([run[row] for run in runs]) for row in runs[0]}
    params: dict[str, object] = {
        "machines": options.machines,
        "requests": options.requests,
        "horizon_steps": options.horizon,
        "load": options.load,
        "agent": options.agent,
        "seeds": list(options.seeds[: len(runs)]),
    }
    return PromiseTable(params, rows)


@dataclass(frozen=True, slots=True)
class PromisedPlan:
    """What one level accepted, of how many requests and of how much work."""

    plan: Plan
    accepted: float
    accepted_work: float

    def figures(self, policy: Policy) -> dict[str, float]:
        """Carry everything out; machines that were not promised are found by a strategy."""
        run = run_plan(self.plan, options=DispatchOptions(policy))
        slots = run.slots
        return {
            "accepted": self.accepted,
            "accepted by work": self.accepted_work,
            "broken": len(run.below) / max(run.reservations, 1),
            "slots broken": slots.broken / max(slots.kept + slots.broken + slots.lost, 1),
        }


def admit_all(
    options: PromiseOptions, level: PromiseLevel, case: PromiseCase, seed: int
) -> PromisedPlan:
    """Offer every request of a seed to one level, in order of submission."""
    cluster = replace(promise_cluster(options, case), promise=level)
    plan = Plan(cluster, cluster.grid())
    drawn = draw_requests(options, cluster, case, np.random.default_rng(seed))
    work = {request.id: work_of(atom, cluster) for request, atom in drawn}
    accepted = admit_in_turn(plan, agent_named(options.agent), [one for one, _ in drawn])
    share = sum(work[request.id] for request in accepted) / sum(work.values())
    return PromisedPlan(plan, len(accepted) / len(drawn), share)

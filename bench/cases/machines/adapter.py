"""`adapter`: a rack of 20 of 100 machines is lost at a random instant over a loaded plan.

For each seed a plan of the one generator (mix by seed, load 1.2 asked, GREE-L) is brought to a
random instant, 20 machines go for 10 to 120 minutes, and three rules answer on the same plan:

- YARN's: at each step in turn, drop the newest reservation until the rest fits;
- the adapter's greedy part alone, with started work pinned;
- the adapter with its rounds of improvement.

Informed of each: value kept as a share of
the value that stood (value is weight x size), reservations dropped, and work moved as a share of
the work that stood. YARN's rule moves nothing: what it drops is lost. Weights are 1, 2 or 5.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bench.workloads.generator import KINDS, Mix, cluster_of, requests_of
from planner.adaptation.adapter import adapt
from planner.adaptation.repair import Repair, present_holders, yarn_rule
from planner.adaptation.result import Adaptation, Effect
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Outage
from planner.metrics import measure
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Reconfigure
from planner.replanning.draft_plan import DraftPlan, shortage_of, work_moved
from planner.reservations.reservation import Holding
from planner.validation.validate import validate
from planner.workload.plan import document_of

NAME = "adapter"

MACHINES: Final = 100
RACK: Final = 20
STEPS: Final = 240
ROUNDS: Final = 60


def run(small: bool) -> dict[str, object]:
    """Lose the rack once a seed and compare; every answer is committed and validated."""
    seeds = 4 if small else 240
    scenes = [scene(seed) for seed in range(seeds)]
    figures: dict[str, object] = {"plans": len(scenes)}
    rules: dict[str, Callable[[Plan], RuleOutcome]] = {
        "yarn": _yarn,
        "greedy": lambda plan: adapted(plan, Limits(work=0)),
        "adapter": lambda plan: adapted(plan, Limits(work=ROUNDS, seed=1)),
    }
    outcomes = {name: [rule(plan) for plan in scenes] for name, rule in rules.items()}
    for name, rows in outcomes.items():
        figures[name] = summary(rows)
    figures["less_kept_than_yarn"] = sum(
        ours.kept < theirs.kept - 1e-9
        for ours, theirs in zip(outcomes["adapter"], outcomes["yarn"], strict=True)
    )
    figures["hit"] = round(statistics.mean(one.hit for one in outcomes["yarn"]), 1)
    params = {
        "machines": MACHINES,
        "lost": RACK,
        "steps": STEPS,
        "seeds": seeds,
        "kinds": KINDS,
        "rounds": ROUNDS,
    }
    return {"params": params, "figures": figures}


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What one rule made of one plan; shares of what stood when the rack went."""

    kept: float
    dropped: int
    moved: float
    ms: float
    hit: int = 0


def scene(seed: int) -> Plan:
    """Return a loaded plan at a random instant, with the rack gone and nothing done about it."""
    mix = Mix(
        requests=120,
        steps=STEPS,
        machines=MACHINES,
        kind=KINDS[seed % len(KINDS)],
        seed=seed,
        load=1.2,
    )
    rng = np.random.default_rng([seed, 7])
    cluster = cluster_of(mix)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("gree-l")
    asked = [replace(one, weight=float(rng.choice([1, 2, 5]))) for one in requests_of(mix)]
    results = agent.plan(asked, plan.view(), Limits())
    pairs = zip(asked, results, strict=True)
    admits = [Admit(one, result, agent.name) for one, result in pairs if result.placed]
    _commit(plan, *admits)
    now, length = int(rng.integers(5, STEPS - 30)), int(rng.integers(10, 121))
    _commit(plan, Advance(now))
    end = min(STEPS, now + length)
    rack = tuple(range(MACHINES - RACK, MACHINES))
    lost = Outage("standard", rack, now * mix.step_ms, end * mix.step_ms)
    _commit(plan, Reconfigure(replace(cluster, outages=(lost,))))
    return plan


def _commit(plan: Plan, *changes: Admit | Advance | Reconfigure) -> None:
    prepared = plan.prepare(changes, plan.version)
    if prepared.record is None or prepared.conflicts:
        raise AssertionError(f"the Plan does not accept it: {prepared.conflicts[:1]}")
    plan.apply(prepared.record)


def _stood(plan: Plan, repair: Repair) -> tuple[float, float]:
    """Return value and work (from now on) of all current allocations."""
    nothing = Holding((), 0, 0)
    commitments = [repair.commitment(number) for number in present_holders(plan).tolist()]
    works = [work_moved(nothing, one.before, plan.now, repair.nominal) for one in commitments]
    return sum(one.value for one in commitments), sum(works)


def _yarn(plan: Plan) -> RuleOutcome:
    repair = Repair(plan, DraftPlan.of(plan))
    value, _ = _stood(plan, repair)
    began = time.perf_counter()
    dropped = yarn_rule(repair.base, repair.hit)
    ms = 1000 * (time.perf_counter() - began)
    lost = sum(one.value for one in dropped)
    return RuleOutcome(1 - lost / value if value else 1.0, len(dropped), 0.0, ms, len(repair.hit))


def adapted(plan: Plan, limits: Limits) -> RuleOutcome:
    value, work = _stood(plan, Repair(plan, DraftPlan.of(plan)))
    began = time.perf_counter()
    found = adapt(plan, limits)
    ms = 1000 * (time.perf_counter() - began)
    _check(plan, found)
    kept = 1 - found.cost.dropped / value if value else 1.0
    moved = found.cost.moved / work if work else 0.0
    return RuleOutcome(kept, len(found.of(Effect.DEGRADED)), moved, ms)


def _check(plan: Plan, found: Adaptation) -> None:
    """Commit the answer to a copy of the Plan and hold it against the validator."""
    if not found.changes:
        return
    prepared = plan.prepare(found.changes, found.based_on, joint=True)
    if prepared.record is None:
        raise AssertionError(f"the Plan does not take the repair: {prepared.conflicts[:1]}")
    state = plan.copy()
    state.apply(prepared.record)
    document = document_of(state, "adapter", "value", measure([], state.cluster.nominal, STEPS))
    body = document.to_json()
    del body["metrics"]
    violations = validate(body, grid=state.grid)
    if violations or shortage_of(state.ledger).counts:
        raise AssertionError(f"{len(violations)} violations, the first: {violations[:1]}")


def summary(rows: Sequence[RuleOutcome]) -> dict[str, float]:
    kept = sorted(one.kept for one in rows)
    return {
        "value_kept_mean": round(statistics.mean(kept), 4),
        "value_kept_p5": round(kept[len(kept) // 20], 4),
        "value_kept_least": round(kept[0], 4),
        "all_kept": sum(one.dropped == 0 for one in rows),
        "dropped_mean": round(statistics.mean(one.dropped for one in rows), 2),
        "work_moved_mean": round(statistics.mean(one.moved for one in rows), 4),
        "ms_median": round(statistics.median(one.ms for one in rows), 1),
        "ms_most": round(max(one.ms for one in rows), 1),
    }

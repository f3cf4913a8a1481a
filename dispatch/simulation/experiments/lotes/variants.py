"""Who is compared in the LoTES experiments: policies with what they know and how they plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from dispatch.simulation.machine_level.measures import SimulationOptions, SimulationResult
from dispatch.simulation.machine_level.simulator import simulate
from dispatch.simulation.machine_level.workload import Workload
from lp.lotes.instance import LotesInstance
from lp.lotes.pipeline import LotesOptions, LotesResult, Mode, plan_lotes


@dataclass(frozen=True, slots=True)
class LotesVariant:
    """One side of a comparison.

    Attributes
    ----------
    mode
        How LoTES plans; the others do not.
    tetris_hours
        Weight of the processing time, in hours, in the score of Tetris: 0 takes from it what LoTES
        does not have, the true time of each job.
    work_conserving
        LoTES: see `SimulationOptions`.
    """

    name: str
    policy: Policy
    mode: Mode = "priced"
    tetris_hours: float = 1.0
    work_conserving: bool = False


LOTES_PAPER = LotesVariant("lotes (paper mode)", "lotes", "paper")
LOTES_PAIRED = LotesVariant("lotes (paired)", "lotes", "paired")
LOTES = LotesVariant("lotes", "lotes")
LOTES_BUSY = LotesVariant("lotes, never idle", "lotes", work_conserving=True)
TETRIS = LotesVariant("tetris", "tetris")
TETRIS_BLIND = LotesVariant("tetris without times", "tetris", tetris_hours=0.0)
GREEDY = LotesVariant("greedy", "greedy")


def plans_of(instance: LotesInstance, variants: Sequence[LotesVariant]) -> dict[Mode, LotesResult]:
    """Plan once in each mode that some LoTES among the variants needs; priced if none does."""
    modes = {variant.mode for variant in variants if variant.policy == "lotes"} or {"priced"}
    return {mode: plan_lotes(instance, LotesOptions(mode=mode)) for mode in sorted(modes)}


def sustained_rate(plans: dict[Mode, LotesResult]) -> float:
    """lambda* per hour: the best plan's, before rounding (as section 5.4.2 defines it)."""
    return max(plan.assignment.relaxed_rate for plan in plans.values())


def run_variant(
    variant: LotesVariant,
    plans: dict[Mode, LotesResult],
    workload: Workload,
    seed: int,
    options: SimulationOptions,
    speed: NDArray[np.float64] | None = None,
) -> SimulationResult:
    """Simulate one variant; equal seeds give every variant the same jobs."""
    plan = plans[variant.mode] if variant.policy == "lotes" else next(iter(plans.values()))
    return simulate(
        Machines.of_table(plan.table),
        workload,
        variant.policy,
        np.random.default_rng(seed),
        speed=speed,
        table=plan.table,
        options=replace(
            options,
            tetris_hours=variant.tetris_hours,
            work_conserving=variant.work_conserving,
        ),
    )

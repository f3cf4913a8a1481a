"""`omega`: conflict fraction, busyness and wait of 1 to 32 planners on one Plan.

Omega's decision times (0.1 s a job and 5 ms a task) and its transaction models: fine or coarse
conflict detection, incremental or all-or-nothing transactions. Two rates of arrival on cells that
grow with them: one planner keeps up with the first, the second asks for 5.4 planners' time. The
commits are those of the real Plan; Omega's sections 4.3 and 5.2 say what to expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from statistics import mean
from typing import Final

from bench.papers.omega import OmegaFigures, OmegaRun, run_omega

NAME = "omega"

PLANNERS: Final = (1, 2, 4, 8, 16, 32)

#: Name of a transaction model: coarse detection, all-or-nothing transactions.
MODELS: Final = {
    "fine_incremental": (False, False),
    "fine_all_or_nothing": (False, True),
    "coarse_incremental": (True, False),
    "coarse_all_or_nothing": (True, True),
}

#: Arrivals a second, cells of 8 cores, how long jobs arrive, and seeds.
RATES: Final = ((4.5, 128, 240.0, (1, 2, 3)), (36.0, 1024, 60.0, (1, 2)))
_SLICES: Final = 12


def run(small: bool) -> dict[str, object]:
    """Run every combination; a row is [conflict fraction, busyness, its MAD, wait in s]."""
    planners = (1, 8) if small else PLANNERS
    figures: dict[str, object] = {}
    for rate, cells, length_s, seeds in ((4.5, 128, 20.0, (1,)),) if small else RATES:
        rows = {
            (model, count): figures_of(
                rate, cells, 20.0 if small else length_s, count, model, seeds
            )
            for model, count in product(MODELS, planners)
        }
        for model in MODELS:
            figures[f"{model}_at_{rate:g}"] = {
                str(count): row_of(rows[model, count]) for count in planners
            }
        figures[f"against_fine_incremental_at_{rate:g}"] = {
            model: against(rows, model, planners) for model in list(MODELS)[1:]
        }
        runs = [one for row in rows.values() for one in row]
        figures[f"utilisation_at_{rate:g}"] = round(mean(one.utilisation for one in runs), 2)
        figures[f"jobs_given_up_at_{rate:g}"] = sum(one.given_up for one in runs)
    params = {"rates": RATES, "planners": planners}
    return {"params": params, "figures": figures}


def figures_of(
    rate: float, cells: int, length_s: float, planners: int, model: str, seeds: Sequence[int]
) -> list[OmegaFigures]:
    """Run one configuration with each seed."""
    coarse, all_or_nothing = MODELS[model]
    return [
        run_omega(
            OmegaRun(
                planners=planners,
                jobs_per_s=rate,
                cells=cells,
                length_s=length_s,
                slice_s=length_s / _SLICES,
                coarse=coarse,
                all_or_nothing=all_or_nothing,
                seed=seed,
            )
        )
        for seed in seeds
    ]


def row_of(runs: Sequence[OmegaFigures]) -> list[float]:
    """Return means over the seeds: conflict fraction, busyness, its MAD, wait in s."""
    return [
        round(mean(one.conflict_fraction for one in runs), 3),
        round(mean(one.busyness for one in runs), 3),
        round(mean(one.busyness_mad for one in runs), 3),
        round(mean(one.wait_s for one in runs), 3),
    ]


def against(
    rows: dict[tuple[str, int], list[OmegaFigures]], model: str, planners: Sequence[int]
) -> dict[str, float]:
    """Return conflict fraction over that of fine and incremental, by planners; none for one."""
    found = {}
    for count in planners:
        base = mean(one.conflict_fraction for one in rows["fine_incremental", count])
        if base > 0:
            here = mean(one.conflict_fraction for one in rows[model, count])
            found[str(count)] = round(here / base, 2)
    return found

"""Stage 2 as an integer program against the LP rounded (LoTES section 4.2.1): lambda and time.

The paper says that the integer program is not practical, and that rounding costs less than 0.001 %.
Both take the same bins, so that the difference is the rounding's alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.cases.dispatch.lotes_offline import drawn, published
from lp.limits import SolveLimits
from lp.lotes.allocation import allocate
from lp.lotes.assignment import Assignment, Bins, assign
from lp.lotes.instance import LotesInstance
from lp.lotes.pipeline import paired_bins
from lp.lotes.pricing import price_bins

NAME = "lotes_integer"
TIME_LIMIT_S = 20.0


def run(small: bool) -> dict[str, object]:
    """lambda an hour, its loss against the LP, seconds and the integer program's proven gap."""
    limit_s = 2.0 if small else TIME_LIMIT_S
    solvers = ("highs",) if small else ("highs", "pulp:CBC")
    figures: dict[str, object] = {}
    for case, instance, bins in _cases(small):
        rounded, spent = _timed(instance, bins, False, "highs", limit_s)
        figures[f"{case}_bins"] = len(bins.jobs)
        figures[f"{case}_machines"] = instance.configurations.machines
        figures[f"{case}_relaxed_per_h"] = rounded.relaxed_rate
        figures[f"{case}_rounded_per_h"] = rounded.arrival_rate
        figures[f"{case}_rounded_loss"] = 1 - rounded.arrival_rate / rounded.relaxed_rate
        figures[f"{case}_rounded_s"] = spent
        for solver in solvers:
            whole, spent = _timed(instance, bins, True, solver, limit_s)
            name = f"{case}_integer_{solver.removeprefix('pulp:').lower()}"
            figures[f"{name}_per_h"] = whole.arrival_rate
            figures[f"{name}_loss"] = 1 - whole.arrival_rate / rounded.relaxed_rate
            figures[f"{name}_s"] = spent
            figures[f"{name}_status"] = whole.solution.status.value if whole.solution else "none"
    params = {"small": small, "time_limit_s": limit_s, "solvers": list(solvers)}
    return {"params": params, "figures": figures}


def _cases(small: bool) -> Iterator[tuple[str, LotesInstance, Bins]]:
    """Tables 1 and 2 at full size, at a hundredth, and thirty drawn classes."""
    whole = published()
    hundredth = LotesInstance.of(whole.configurations.with_share(0.01), whole.classes)
    yield "hundredth_priced", hundredth, price_bins(hundredth).bins
    yield "tables_priced", whole, price_bins(whole).bins
    if not small:
        yield "tables_paper", whole, paired_bins(whole, allocate(whole))
        thirty = drawn(30, 0)
        yield "thirty_priced", thirty, price_bins(thirty).bins


def _timed(
    instance: LotesInstance, bins: Bins, whole: bool, solver: str, limit_s: float
) -> tuple[Assignment, float]:
    began = time.perf_counter()
    answer = assign(instance, bins, whole=whole, solver=solver, limits=SolveLimits(time_s=limit_s))
    return answer, time.perf_counter() - began

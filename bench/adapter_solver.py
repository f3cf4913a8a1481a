"""`adapter_solver`: what a solver, or more rounds, add to the adapter's greedy part.

The scenes of `adapter`: a rack of 20 of 100 machines is lost over a loaded plan. On each of them:

- greedy: the adapter's greedy part alone;
- greedy_solver: then a solver within its limit, over who found no place and a few around each;
- rounds: the greedy part, then rounds of improvement, as the service does;
- rounds_solver: then the solver as the last word;
- rounds_twice: the greedy part and twice the rounds instead.

Every answer is committed to a copy of the Plan and validated. `more` and `less` count the plans on
which a rule kept more or less value than the one it adds to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bench.adapter import ROUNDS, Told, adapted, scene, summary
from planner.agent import Limits

NAME = "adapter_solver"

SOLVER: Final = "exact"
LIMIT_S: Final = 2.0
_SAME: Final = 1e-9

#: What each rule is given (limits, solver), and the rule that it adds to.
_RULES: Final = {
    "greedy": (Limits(work=0, seed=1), None, None),
    "greedy_solver": (Limits(work=0, seed=1, time_s=LIMIT_S), SOLVER, "greedy"),
    "rounds": (Limits(work=ROUNDS, seed=1), None, "greedy"),
    "rounds_solver": (Limits(work=ROUNDS, seed=1, time_s=LIMIT_S), SOLVER, "rounds"),
    "rounds_twice": (Limits(work=2 * ROUNDS, seed=1), None, "rounds"),
}


def run(small: bool) -> dict[str, object]:
    """Lose the rack once a seed; every rule answers on the same plan."""
    seeds = range(2 if small else 100)
    params = {"seeds": len(seeds), "rounds": ROUNDS, "solver": SOLVER, "limit_s": LIMIT_S}
    return {"params": params, "figures": figures_of(answers(seeds))}


def answers(seeds: Iterable[int]) -> dict[str, list[Told]]:
    """Return what each rule made of each plan."""
    adapted(scene(0), _RULES["greedy_solver"][0], SOLVER)  # compiles what is not cached
    told: dict[str, list[Told]] = {name: [] for name in _RULES}
    for seed in seeds:
        plan = scene(seed)
        for name, (limits, solver, _) in _RULES.items():
            told[name].append(adapted(plan, limits, solver))
    return told


def figures_of(told: Mapping[str, Sequence[Told]]) -> dict[str, object]:
    """Return one row a rule."""
    figures: dict[str, object] = {}
    for name, (_, _, before) in _RULES.items():
        row = summary(told[name])
        if before is not None:
            row |= _beside(told[before], told[name])
        figures[name] = row
    return figures


def _beside(before: Sequence[Told], after: Sequence[Told]) -> dict[str, float]:
    pairs = list(zip(before, after, strict=True))
    return {
        "more": sum(new.kept > old.kept + _SAME for old, new in pairs),
        "less": sum(new.kept < old.kept - _SAME for old, new in pairs),
    }

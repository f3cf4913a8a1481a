"""Find better plans by way of overloaded plans.

A search with slightly more capacity accepts more requests. Then runs of single bundles move inside
their atoms' own windows until there is no overload, which is fast because a move changes few
columns; a plan that stays overloaded is dropped. The plain search wastes free capacity in pieces
shorter than a lease: it places requests one by one and never moves single bundles of placed
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.build import count_alone
from planner.agents.exact.incumbent import fill_slice
from planner.agents.exact.kernels import U64
from planner.agents.exact.kernels import runs as loops
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.runs import A_COLUMNS, R_COLUMNS, RunSet
from planner.agents.exact.kernels.search_state import MoveMix
from planner.agents.exact.problem import F64, PlanningProblem
from planner.agents.exact.search import LARGE, RuinRecreate, mean_height
from rdl.work_graph import ATOM

#: Temperatures of the search with extra capacity at the start of rounds, in turn, and at their end,
#: in units of the mean request value.
WARM: Final = (0.1, 0.04)
COLD: Final = 0.012

#: Maximum total number of runs: with more, windows are drawn too rarely.
_MOST_RUNS: Final = 40_000

#: Offsets of the seeds of the search with extra capacity and of the moves of runs.
_WIDE_SEED: Final = 1_000
_RUN_SEED: Final = 2_000

#: Moves of the first slice with extra capacity, before their duration is known.
_FIRST_MOVES: Final = 5

#: Minimum share of atoms with variable height for making rounds.
_BENDS: Final = 0.2

#: Initial surplus of capacity, its minimum and maximum, and the factors by which it changes after a
#: plan was repaired or was not.
FIRST_SURPLUS: Final = 0.015
_SURPLUS: Final = (0.003, 0.05)
_STEP: Final = 1.25

#: Temperatures of the moves of runs: at the first, after the last, the factor for the next start,
#: and the minimum start.
_HOT: Final = 8.0
_COLD: Final = 0.12
_COOLER: Final = 0.5
_LEAST_HOT: Final = 0.25

#: Moves per run between two draws of the windows, and maximum draws per round.
_MOVES_A_RUN: Final = 40
_DRAWS: Final = 16

#: More draws are useless above this cost, or if the cost has hardly fallen over the last
#: `_PATIENCE` draws.
_HOPELESS: Final = 300.0
_PATIENCE: Final = 3
_STILL: Final = 0.8


def lay_out(problem: PlanningProblem, search: RuinRecreate, random: U64) -> RunSet:
    """Return the kept plan of a search as runs on the free capacity of a problem."""
    forest, room = problem.forest, problem.room
    counts = loops.count_runs(forest, search.arrays)
    atoms, runs, cells = (int(count) for count in counts)
    found = RunSet(
        atom=np.zeros((atoms, A_COLUMNS), dtype=np.int64),
        run=np.zeros((runs, R_COLUMNS), dtype=np.int64),
        first=np.zeros(atoms + 1, dtype=np.int64),
        cell=np.zeros(atoms + 1, dtype=np.int64),
        held=np.zeros(cells, dtype=np.int64),
        most=np.zeros(cells, dtype=np.int64),
        free=room.free.copy(),
        scale=_scales(problem),
        over=np.zeros(1, dtype=np.int64),
        random=random,
    )
    loops.lay_runs(forest, room, search.arrays, found)
    return found


def _scales(problem: PlanningProblem) -> F64:
    """Return float64[row]: 1 / the mean amount of a demand."""
    room = problem.room
    rows = len(room.scale)
    counts = np.bincount(room.demand_rows, minlength=rows)
    sums = np.bincount(room.demand_rows, room.demand_amounts, minlength=rows)
    return np.asarray(np.maximum(counts, 1) / np.maximum(sums, 1.0))


def suits_overload(problem: PlanningProblem) -> bool:
    """Return whether pieces are large, enough of them malleable, and runs not too many."""
    vertices = problem.forest.vertices
    atoms = vertices[vertices[:, pb.V_KIND] == ATOM]
    units = np.maximum(
        1, np.where(atoms[:, pb.V_LEAST] == atoms[:, pb.V_MOST], atoms[:, pb.V_MOST], 1)
    )
    runs = atoms[:, pb.V_WORK] // (np.maximum(1, atoms[:, pb.V_LEASE]) * units) + 1
    if runs.sum() > _MOST_RUNS:
        return False
    bends = (atoms[:, pb.V_RUN] == 0) & (atoms[:, pb.V_LEAST] < atoms[:, pb.V_MOST])
    return bool(bends.mean() >= _BENDS) and mean_height(problem) >= LARGE


def stands_still(costs: Sequence[float]) -> bool:
    """Return whether more draws are useless.

    Parameters
    ----------
    costs
        Costs at the start and after each draw.
    """
    if len(costs) < _PATIENCE + 2:
        return len(costs) > 1 and costs[-1] > _HOPELESS
    return costs[-1] > _STILL * costs[-1 - _PATIENCE]


@dataclass(slots=True)
class OverloadSearch:
    """Rounds in which a search with extra capacity finds a plan, which is then repaired to fit.

    Attributes
    ----------
    problem
        The requests and the free capacity; fit caps are lowered to the bundles that fit if nothing
        else is placed.
    mix
        Moves of the search.
    seed
        Seed of the random numbers.
    clock
        Seconds.
    is_over
        Whether to end; polled every slice.
    surplus
        Extra capacity of the next round, as a fraction of the free capacity.
    rounds
        Number of rounds so far.
    wide
        The search with extra capacity.
    """

    problem: PlanningProblem
    mix: MoveMix
    seed: int
    clock: Callable[[], float]
    is_over: Callable[[], bool]
    surplus: float = FIRST_SURPLUS
    rounds: int = 0
    _slice: int = field(default=2000, init=False)
    wide: RuinRecreate = field(init=False)
    _random: U64 = field(init=False)

    def __post_init__(self) -> None:
        """Limit atoms to the bundles that fit without the extra capacity."""
        room = self.problem.room
        self.problem = replace(self.problem, room=room._replace(fit=count_alone(room)))
        self.wide = RuinRecreate(self.problem, self.seed + _WIDE_SEED)
        self._random = state.random_state(self.seed + _RUN_SEED)

    def improve(self, search: RuinRecreate, seconds: float) -> bool:
        """Make one round; return whether it improved the plan of `search`.

        Parameters
        ----------
        seconds
            Seconds for the search with extra capacity.
        """
        self.rounds += 1
        wide = self._widen(search, seconds)
        if wide.value <= search.value:
            self._adapt(_STEP)
            return False
        runs = lay_out(self.problem, wide, self._random)
        self._reduce(wide, runs)
        if runs.over[0] > 0:
            self._adapt(1 / _STEP)
            return False
        loops.write_plan(self.problem.forest, wide.arrays, runs)
        self._adapt(_STEP)
        if wide.value <= search.value:  # a request had too many pieces
            return False
        search.adopt(wide)
        return True

    def load_loops(self, search: RuinRecreate) -> None:
        """Call every loop once on a search's plan, which is unusable afterwards."""
        runs = lay_out(self.problem, search, self._random)
        loops.draw_windows(self.problem.forest, search.arrays, runs)
        loops.reduce_overload(self.problem.forest, self.problem.room, runs, 0, _HOT, _COLD)
        loops.overload_cost(runs)
        loops.write_plan(self.problem.forest, search.arrays, runs)

    def _adapt(self, factor: float) -> None:
        least, most = _SURPLUS
        self.surplus = min(most, max(least, self.surplus * factor))

    def _widen(self, search: RuinRecreate, seconds: float) -> RuinRecreate:
        """Run a search with extra capacity from the best plan for some seconds; return it."""
        room = self.problem.room
        more = (room.free * (1 + self.surplus)).astype(np.int64)
        wide = self.wide
        wide.problem = replace(self.problem, room=room._replace(free=more))
        wide.adopt(search)
        hot = WARM[self.rounds % len(WARM)]
        mean = self.problem.total / len(self.problem.requests)
        began, before, count, progress = self.clock(), wide.moves, _FIRST_MOVES, 0.0
        while progress < 1.0 and not self.is_over():
            wide.run(count, self.mix, mean * hot * (COLD / hot) ** progress)
            spent = self.clock() - began
            progress = spent / seconds
            count = fill_slice(count, spent * count / (wide.moves - before))
        wide.restore_best()
        return wide

    def _reduce(self, wide: RuinRecreate, runs: RunSet) -> None:
        """Move runs until there is no overload or `_DRAWS` sets of windows have been tried."""
        forest, costs, hot = self.problem.forest, [loops.overload_cost(runs)], _HOT
        for _ in range(_DRAWS):
            if runs.over[0] == 0 or stands_still(costs) or self.is_over():
                return
            loops.draw_windows(forest, wide.arrays, runs)
            self._move_runs(runs, hot)
            hot = max(_LEAST_HOT, hot * _COOLER)
            costs.append(loops.overload_cost(runs))

    def _move_runs(self, runs: RunSet, hot: float) -> None:
        """Move runs in slices until there is no overload or each was moved often enough."""
        total = _MOVES_A_RUN * max(1000, len(runs.run))
        done = 0
        while done < total and runs.over[0] > 0 and not self.is_over():
            count = min(self._slice, total - done)
            begin, end = (hot * (_COLD / hot) ** (q / total) for q in (done, done + count))
            before = self.clock()
            made = loops.reduce_overload(
                self.problem.forest, self.problem.room, runs, count, begin, end
            )
            if made == self._slice:  # a shorter slice is no good measure of the duration
                self._slice = fill_slice(count, self.clock() - before)
            done += count

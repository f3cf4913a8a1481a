"""Better plans by way of plans that take more than there is.

A search in which there is a little more of everything accepts more. Then runs of single bundles
move inside windows of their atoms' own until nothing is over, which is quick, as a move changes a
few columns; requests that still are in the way go. What the search alone loses is room that is
left in pieces shorter than a lease: it places one request after the other and never moves a
bundle of those that stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.budget import fill_slice
from planner.agents.exact.build.problem_builder import count_alone
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.search_state import MoveMix
from planner.agents.exact.move_mixes import LARGE, mean_height
from planner.agents.exact.overload import layout, moves
from planner.agents.exact.overload.run_set import A_COLUMNS, R_COLUMNS, RunSet
from planner.agents.exact.problem import F64, PlanningProblem
from planner.agents.exact.ruin_recreate import RuinRecreate
from rdl.work_graph import ATOM

#: Temperatures of the search with more room at the beginning of rounds, in turn, and at their end,
#: in mean values of a request.
WARM: Final = (0.1, 0.04)
COLD: Final = 0.012

#: Share of atoms whose height may change, from which rounds are made.
_BENDS: Final = 0.2

#: How much more there is at first, and at least and at most; and by what factor that changes when
#: nothing had to go, or when something had.
FIRST_SURPLUS: Final = 0.015
_SURPLUS: Final = (0.003, 0.05)
_STEP: Final = 1.25

#: Temperatures of the moves of runs: at the first, after the last, and by how much less the next
#: ones begin, down to a least beginning.
_HOT: Final = 8.0
_COLD: Final = 0.12
_COOLER: Final = 0.5
_LEAST_HOT: Final = 0.25

#: Moves between two draws of the windows, a run; draws before something must go, and after.
_MOVES_A_RUN: Final = 40
_DRAWS: Final = 16
_DRAWS_AFTER: Final = 6

#: More draws are in vain above a cost, or where it still is so much of what it was some draws
#: before.
_HOPELESS: Final = 300.0
_PATIENCE: Final = 4
_STILL: Final = 0.8


def lay_out(problem: PlanningProblem, search: RuinRecreate, seed: int) -> RunSet:
    """Return the kept plan of a search as runs, over what is free in a problem."""
    forest, room = problem.forest, problem.room
    counts = layout.count_runs(forest, search.arrays)
    atoms, runs, cells = (int(count) for count in counts)
    random = np.array([((seed + 1) * 0x9E3779B97F4A7C15) % 2**64 | 1], dtype=np.uint64)
    found = RunSet(
        atom=np.zeros((atoms, A_COLUMNS), dtype=np.int64),
        run=np.zeros((runs, R_COLUMNS), dtype=np.int64),
        first=np.zeros(atoms + 1, dtype=np.int64),
        cell=np.zeros(atoms + 1, dtype=np.int64),
        held=np.zeros(cells, dtype=np.int64),
        most=np.zeros(cells, dtype=np.int64),
        free=room.free.copy(),
        scale=_scales(problem),
        cost=np.zeros(1),
        random=random,
    )
    layout.lay_runs(forest, room, search.arrays, found)
    return found


def _scales(problem: PlanningProblem) -> F64:
    """Return float64[row]: 1 / the mean amount of a demand."""
    room = problem.room
    rows = len(room.scale)
    counts = np.bincount(room.demand_rows, minlength=rows)
    sums = np.bincount(room.demand_rows, room.demand_amounts, minlength=rows)
    return np.asarray(np.maximum(counts, 1) / np.maximum(sums, 1.0))


def suits_overload(problem: PlanningProblem) -> bool:
    """Return whether pieces are large, and enough of the work may bend."""
    vertices = problem.forest.vertices
    atoms = vertices[vertices[:, pb.V_KIND] == ATOM]
    bends = (atoms[:, pb.V_RUN] == 0) & (atoms[:, pb.V_LEAST] < atoms[:, pb.V_MOST])
    return bool(bends.mean() >= _BENDS) and mean_height(problem) >= LARGE


def _stands_still(costs: Sequence[float]) -> bool:
    """Return whether more draws are in vain.

    Parameters
    ----------
    costs
        At the beginning, and after each draw.
    """
    if len(costs) <= _PATIENCE:
        return len(costs) > 1 and costs[-1] > _HOPELESS
    return costs[-1] > _STILL * costs[-_PATIENCE]


@dataclass(slots=True)
class OverloadSearch:
    """Rounds in which a search with more room than there is finds what then is made to fit.

    Attributes
    ----------
    problem
        The requests and what is free.
    mix
        Moves of the search.
    seed
        Of the random numbers.
    clock
        Seconds.
    is_over
        Whether to end; asked every slice.
    surplus
        Part of what is free that the next round has besides.
    rounds
        Rounds so far.
    """

    problem: PlanningProblem
    mix: MoveMix
    seed: int
    clock: Callable[[], float]
    is_over: Callable[[], bool]
    surplus: float = FIRST_SURPLUS
    rounds: int = 0
    _slice: int = field(default=2000, init=False)
    _wide: RuinRecreate = field(init=False)

    def __post_init__(self) -> None:
        """Let no atom hold more than fits alone, however much there is besides."""
        room = self.problem.room
        self.problem = replace(self.problem, room=room._replace(fit=count_alone(room)))
        self._wide = RuinRecreate(self.problem, self.seed)

    def improve(self, search: RuinRecreate, seconds: float) -> bool:
        """Make one round; return whether `search` has a better plan by it.

        Parameters
        ----------
        seconds
            Of the search with more room.
        """
        self.rounds += 1
        wide = self._widen(search, seconds)
        if wide.value <= search.value:
            self._adapt(_STEP)
            return False
        lost, runs = 0, lay_out(self.problem, wide, self.seed + self.rounds)
        self._reduce(wide, runs, _DRAWS, _HOT)
        while float(runs.cost[0]) > 0:
            request = self._next_refusal(wide, runs)
            if (
                self.is_over()
                or wide.value - wide.arrays.worth[state.KEPT, request] <= search.value
            ):
                self._adapt(1 / _STEP)
                return False
            layout.write_plan(self.problem.forest, wide.arrays, runs)
            layout.remove(self.problem.forest, wide.arrays, request)
            runs = lay_out(self.problem, wide, self.seed + self.rounds)
            self._reduce(wide, runs, _DRAWS_AFTER, _LEAST_HOT)
            lost += 1
        layout.write_plan(self.problem.forest, wide.arrays, runs)
        self._adapt(1 / _STEP if lost else _STEP)
        if wide.value <= search.value:
            return False
        search.adopt(wide)
        return True

    def load_loops(self, search: RuinRecreate) -> None:
        """Call every loop once on whatever plan a search has."""
        runs = lay_out(self.problem, search, self.seed)
        layout.draw_windows(self.problem.forest, search.arrays, runs)
        moves.reduce_overload(self.problem.forest, self.problem.room, runs, 0, _HOT, _COLD)
        moves.overload_shares(self.problem.forest, self.problem.room, runs)
        layout.write_plan(self.problem.forest, search.arrays, runs)

    def _adapt(self, factor: float) -> None:
        least, most = _SURPLUS
        self.surplus = min(most, max(least, self.surplus * factor))

    def _widen(self, search: RuinRecreate, seconds: float) -> RuinRecreate:
        """Return a search with more room that has gone on from the best plan for some seconds."""
        room = self.problem.room
        more = (room.free * (1 + self.surplus)).astype(np.int64)
        wide = self._wide
        wide.problem = replace(self.problem, room=room._replace(free=more))
        wide.adopt(search)
        hot = WARM[self.rounds % len(WARM)]
        mean = self.problem.total / len(self.problem.requests)
        began, before, count, progress = self.clock(), wide.moves, 20, 0.0
        while progress < 1.0 and not self.is_over():
            wide.run(count, self.mix, mean * hot * (COLD / hot) ** progress)
            spent = self.clock() - began
            progress = spent / seconds
            count = fill_slice(count, spent * count / (wide.moves - before))
        wide.restore_best()
        return wide

    def _reduce(self, wide: RuinRecreate, runs: RunSet, draws: int, hot: float) -> None:
        """Move runs until nothing is over or `draws` sets of windows have been tried."""
        forest, costs = self.problem.forest, [float(runs.cost[0])]
        for _ in range(draws):
            if costs[-1] == 0 or _stands_still(costs) or self.is_over():
                return
            layout.draw_windows(forest, wide.arrays, runs)
            self._move_runs(runs, hot)
            hot = max(_LEAST_HOT, hot * _COOLER)
            costs.append(float(runs.cost[0]))

    def _move_runs(self, runs: RunSet, hot: float) -> None:
        total = _MOVES_A_RUN * max(1000, len(runs.run))
        made = 0
        while made < total and float(runs.cost[0]) > 0 and not self.is_over():
            count = min(self._slice, total - made)
            begin, end = (hot * (_COLD / hot) ** (q / total) for q in (made, made + count))
            before = self.clock()
            moves.reduce_overload(self.problem.forest, self.problem.room, runs, count, begin, end)
            self._slice = fill_slice(count, self.clock() - before)
            made += count

    def _next_refusal(self, wide: RuinRecreate, runs: RunSet) -> int:
        """Return the request whose refusal takes most overload away for what it is worth."""
        shares = moves.overload_shares(self.problem.forest, self.problem.room, runs)
        worth = wide.arrays.worth[state.KEPT]
        return int(np.argmax(shares / np.maximum(worth, 1e-9 * self.problem.total)))

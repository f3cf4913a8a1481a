"""Find the starts of gangs that matter, and the gangs that no other request can block.

A step of a row is *contended* if the total that all requests could use there, each at any of its
starts, exceeds the free capacity. At all other steps every plan fits. So a start of a gang
dominates another one if its contended steps are a subset of the other's: only starts that are not
dominated are kept, and a gang that can avoid all contended steps does so. Fewer starts make fewer
steps contended; both computations are repeated until nothing changes.

No optimum is lost: in any plan all gangs can move to starts that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import I64, Forest, FreeRoom, PlanningProblem, fitting_starts
from rdl.work_graph import ATOM


@dataclass(frozen=True, slots=True)
class KeptStarts:
    """The starts of one atom that is a block.

    Attributes
    ----------
    starts
        Columns, ascending; none if it fits nowhere.
    before
        int64[column + 1]: contended steps before each column, in the rows that it uses.
    length
        Length of the block in columns.
    """

    starts: I64
    before: I64
    length: int

    @property
    def is_free(self) -> bool:
        """Whether it uses no contended step, so that nothing can block it."""
        return bool(len(self.starts) == 1 and self._held(self.starts)[0] == 0)

    def _held(self, starts: I64) -> I64:
        return np.asarray(self.before[starts + self.length] - self.before[starts])

    def without_dominated(self) -> KeptStarts:
        """Return the starts that are not dominated; of equal ones the first."""
        starts = self.starts
        none = np.flatnonzero(self._held(starts) == 0)
        if len(none):
            return KeptStarts(starts[none[:1]], self.before, self.length)
        first, end = self.before[starts], self.before[starts + self.length]
        new = np.append(True, (np.diff(first) > 0) | (np.diff(end) > 0))[: len(starts)]
        starts, first, end = starts[new], first[new], end[new]
        kept = np.ones(len(starts), dtype=np.bool_)
        kept[:-1] &= end[:-1] < end[1:]
        kept[1:] &= first[1:] > first[:-1]
        return KeptStarts(starts[kept], self.before, self.length)

    def dominating(self, start: int) -> int:
        """Return the kept start whose contended steps are a subset of those of `start`."""
        if self.is_free:
            return int(self.starts[0])
        place = np.searchsorted(self.before[self.starts], self.before[start])
        return int(self.starts[min(int(place), len(self.starts) - 1)])


def kept_starts(problem: PlanningProblem) -> dict[int, KeptStarts]:
    """Return the relevant starts of every atom, by vertex.

    Starts are dropped only for requests of a single gang; in others an atom's start affects other
    atoms.

    Parameters
    ----------
    problem
        All its atoms are blocks.
    """
    forest, room = problem.forest, problem.room
    vertices = forest.vertices
    atoms = np.flatnonzero((vertices[:, pb.V_KIND] == ATOM) & (vertices[:, pb.V_SOUND] == 1))
    alone = np.diff(forest.first)[vertices[:, pb.V_REQUEST]] == 1
    every = np.arange(room.free.shape[1] + 1)
    kept = {}
    for v in atoms.tolist():
        starts = vertices[v, pb.V_START] + np.flatnonzero(fitting_starts(forest, vertices[v]))
        kept[v] = KeptStarts(starts, every, int(vertices[v, pb.V_RUN]))
    count = -1
    while count != sum(len(one.starts) for one in kept.values()):
        count = sum(len(one.starts) for one in kept.values())
        contended = _contended(forest, room, kept)
        first, rows = room.demand_first, room.demand_rows
        before = [
            np.append(0, np.cumsum(contended[rows[a:b]].any(axis=0)))
            for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
        ]
        for v in np.flatnonzero(alone).tolist():
            if v in kept:
                demand = int(vertices[v, pb.V_DEMAND])
                own = KeptStarts(kept[v].starts, before[demand], kept[v].length)
                kept[v] = own.without_dominated()
    return kept


def _contended(forest: Forest, room: FreeRoom, kept: dict[int, KeptStarts]) -> I64:
    """Return bool[row, column]: whether the possible use exceeds the free capacity."""
    rows, columns = room.free.shape
    change = np.zeros((rows, columns + 1), dtype=np.int64)
    for v, one in kept.items():
        if not len(one.starts):
            continue
        row = forest.vertices[v]
        # Starts at most a length apart cover one contiguous range of columns.
        gaps = np.flatnonzero(np.diff(one.starts) > one.length)
        begins = one.starts[np.append(0, gaps + 1)]
        ends = one.starts[np.append(gaps, len(one.starts) - 1)] + one.length
        bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        for shift in forest.shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            for j in range(first, end):
                line, amount = change[room.demand_rows[j]], bundles * room.demand_amounts[j]
                line[np.minimum(begins + shift, columns)] += amount
                line[np.minimum(ends + shift, columns)] -= amount
    return np.asarray(np.cumsum(change, axis=1)[:, :columns] > room.free)

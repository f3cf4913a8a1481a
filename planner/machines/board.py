"""A board of machines on which unstarted slots move to admit a slot without a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, groups_with
from planner.machines.stripes import Stripes
from rdl.resources import Resources

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Machines examined per slot: examining more costs time and finds little.
LOOKS: Final = 256


class MachineBoard:
    """Free capacity of machines over a range of steps, with the slots placed there.

    Unlike `planner.machines.room.MachineRoom` it records the slots on each machine. It is a dense
    array, made for one search and then discarded.

    Parameters
    ----------
    cluster
        The cluster with the machines; outages leave no capacity.
    span
        First and end step.
    width
        Steps per column; slots are rounded outward.
    kinds
        (bundle, label) by number.
    """

    def __init__(
        self,
        cluster: Cluster,
        span: tuple[int, int],
        width: int,
        kinds: Sequence[tuple[Resources, str | None]],
    ) -> None:
        stripes = Stripes(cluster)
        self._cluster, self._width = cluster, width
        self._first, end = span[0] // width, -(-span[1] // width)
        self._end = max(self._first + 1, end)
        flat = stripes.capacity.transpose(0, 2, 1).reshape(-1, len(stripes.shifts))
        whole = flat[stripes.lane_of]
        columns = self._end - self._first
        self._free = np.repeat(whole[:, :, None], columns, axis=2)
        for machine, start, stop in stripes.outages(
            self._first * width, self._end * width
        ).tolist():
            low, high = self._columns_of(start, stop)
            self._free[machine, :, low:high] = 0
        self._amounts = np.zeros((max(1, len(kinds)), len(stripes.shifts)), dtype=np.int64)
        for number, (bundle, _) in enumerate(kinds):
            rows = stripes.amounts(bundle)
            self._amounts[number, rows[:, 0]] = rows[:, 1]
        labels = sorted({label for _, label in kinds if label is not None})
        self._label_of = np.array(
            [0 if label is None else 1 + labels.index(label) for _, label in kinds], dtype=np.int64
        )
        self._allowed = np.stack([self.with_label(label) for label in (None, *labels)])

    def with_label(self, label: str | None) -> Flags:
        """Return bool[machine]: the machines with a label, all for None."""
        groups = set(groups_with(self._cluster, label))
        counts = [group.count for group in self._cluster.machines]
        return np.repeat(np.array([i in groups for i in range(len(counts))], dtype=bool), counts)

    def _columns_of(self, start: int, stop: int) -> tuple[int, int]:
        low = max(start // self._width, self._first) - self._first
        return low, max(low, min(-(-stop // self._width), self._end) - self._first)

    def stand(self, slots: I64, kind: I64, movable: Flags, waiting: int) -> None:
        """Place slots on their given machines.

        Parameters
        ----------
        slots
            int64[k, 4]; machine -1 means none.
        kind
            int64[k].
        movable
            bool[k]: slots that may move.
        waiting
            Number of slots that :meth:`insert` will add.
        """
        from planner.machines.kernels import ejection as kernels

        count = len(slots)
        table = np.zeros((count + waiting, kernels.COLUMNS), dtype=np.int64)
        table[:, [kernels.MACHINE, kernels.NEXT]] = -1
        table[:, kernels.PENALTY] = 1
        low = np.maximum(slots[:, 0] // self._width, self._first) - self._first
        stop = np.minimum(-(-slots[:, 1] // self._width), self._end) - self._first
        table[:count, kernels.START], table[:count, kernels.STOP] = low, np.maximum(low, stop)
        table[:count, kernels.KIND], table[:count, kernels.BUNDLES] = kind, slots[:, 2]
        table[:count, kernels.MACHINE], table[:count, kernels.MOVABLE] = slots[:, 3], movable
        table[:count, kernels.LABEL] = self._label_of[kind]
        self._count = count
        first = np.full(len(self._free), -1, dtype=np.int64)
        self._board = kernels.Board(self._free, table, first, self._amounts, self._allowed)
        kernels.take_all(self._board)
        #: int64[resource, column]: total free capacity of all machines.
        self._pool = np.maximum(self._free, 0).sum(axis=0, dtype=np.int64)

    def insert(
        self, piece: tuple[int, int, int], kind: int, own: Flags | None, budget: int
    ) -> tuple[dict[int, int], int]:
        """Find a machine for one more slot, moving others.

        Parameters
        ----------
        piece
            Start step, end step, bundles.
        own
            bool[machine]: allowed machines; None allows all machines with its label, and the slot
            may be moved later.
        budget
            Maximum number of moved slots.

        Returns
        -------
        The new machine of each slot that moved, by slot number, and the number of moves tried;
        empty, with nothing changed, if there is no place. The new slot has the next free number.
        """
        from planner.machines.kernels import ejection as kernels

        table, new = self._board.slots, self._count
        low, high = self._columns_of(piece[0], piece[1])
        needed = self._amounts[kind][:, None] * piece[2]
        if (self._pool[:, low:high] < needed).any():
            return {}, 0  # moving slots does not change the total
        table[new, : kernels.MACHINE] = low, high, kind, piece[2]
        table[new, kernels.LABEL] = self._label_of[kind]
        before = table[:, kernels.MACHINE].copy()
        allowed = self._allowed[self._label_of[kind]] if own is None else own
        begin = new * LOOKS % max(1, len(self._free))
        touched, moved = kernels.insert(self._board, new, allowed, begin, LOOKS, budget)
        if not len(touched):
            return {}, int(moved)
        table[new, kernels.MOVABLE] = own is None
        self._count += 1
        self._pool[:, low:high] -= needed
        after = table[:, kernels.MACHINE]
        return {int(i): int(after[i]) for i in np.flatnonzero(after != before)}, int(moved)

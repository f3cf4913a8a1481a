"""ShownRows: reservations as lists show them, written once until something of them changes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.table.table import Stamp
from planner.reservations.reservation import Reservation
from rdl.time_grid import TimeGrid
from service.windows import HeldTimes, UnreadWindow, WindowBook, work_entry

#: Most reservations whose text is kept, about a kilobyte each; the newest stay.
_MOST: Final = 10_000


class _TextSource(NamedTuple):
    """The Plan and the description of the cluster that texts were written from."""

    plan: weakref.ref[Plan]
    cluster: Cluster


class TakenRow(NamedTuple):
    """One reservation as a list takes it from the Plan.

    `text` is None if it has to be written: of `reservation`, as it was in the Plan then.
    """

    ordinal: int
    stamp: Stamp
    text: msgspec.Raw | None
    reservation: Reservation | None
    begin: int
    finish: int
    held_until: float | None


class TakenRows(NamedTuple):
    """Some reservations as a list takes them from the Plan, and what tells their windows."""

    source: _TextSource | None
    rows: Sequence[TakenRow]
    unread: Sequence[UnreadWindow]
    grid: TimeGrid


class ShownRows:
    """JSON of reservations by their ordinal, which they keep, and their stamp.

    Parameters
    ----------
    windows
        Tells the windows of reservations.
    """

    def __init__(self, windows: WindowBook) -> None:
        self._windows = windows
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Stamp, msgspec.Raw]] = {}
        self._source: _TextSource | None = None

    def take(self, plan: Plan, numbers: NDArray[np.int64]) -> TakenRows:
        """Take reservations from the Plan by their numbers; the caller holds it."""
        source = self._source
        if source is None or source.plan() is not plan or source.cluster is not plan.cluster:
            source = _TextSource(weakref.ref(plan), plan.cluster)
            with self._lock:  # slots name the machines of a cluster, times its zone
                self._known, self._source = {}, source
        table, known = plan.table, self._known
        ordinals = table.meta["ordinal"][numbers].tolist()
        ends = table.meta[["begin", "finish"]][numbers].tolist()
        rows: list[TakenRow] = []
        fresh: list[int] = []
        for number, ordinal, stamp, (begin, finish) in zip(
            numbers.tolist(), ordinals, table.stamps(numbers), ends, strict=True
        ):
            kept = known.get(ordinal)
            if kept is not None and kept[0] == stamp:
                rows.append(TakenRow(ordinal, stamp, kept[1], None, begin, finish, None))
                continue
            hold = table.holds.get(number)
            until = None if hold is None else hold.until
            rows.append(TakenRow(ordinal, stamp, None, table.read(number), begin, finish, until))
            fresh.append(number)
        unread = self._windows.unread(plan, np.array(fresh, dtype=np.int64))
        return TakenRows(source, rows, unread, plan.grid)

    def texts(self, taken: TakenRows) -> list[msgspec.Raw]:
        """Return the JSON of each; where it is not known it is written, which takes longest."""
        self._windows.read(taken.unread)
        written: dict[int, tuple[Stamp, msgspec.Raw]] = {}
        found: list[msgspec.Raw] = []
        for row in taken.rows:
            text = row.text
            if text is None:
                text = self._write(row, taken.grid)
                written[row.ordinal] = (row.stamp, text)
            found.append(text)
        if written:
            self._keep(written, taken.source)
        return found

    def _write(self, row: TakenRow, grid: TimeGrid) -> msgspec.Raw:
        assert row.reservation is not None
        (window,) = self._windows.windows([row.ordinal])
        times = HeldTimes(row.begin, row.finish, window)
        shown = times.beside(row.reservation.to_json(grid), grid) | work_entry(row.reservation)
        if row.held_until is not None:
            shown["held_until"] = row.held_until
        return msgspec.Raw(msgspec.json.encode(shown))

    def _keep(
        self, written: dict[int, tuple[Stamp, msgspec.Raw]], source: _TextSource | None
    ) -> None:
        with self._lock:
            if source is not self._source:
                return  # written of a cluster that has changed since
            for ordinal in written:
                self._known.pop(ordinal, None)
            self._known.update(written)
            for ordinal in list(self._known)[: max(0, len(self._known) - _MOST)]:
                del self._known[ordinal]

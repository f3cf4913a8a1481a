"""ShownRows: reservations as shown in lists, encoded once until they change."""

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
from planner.plan.table import Stamp
from planner.reservations.reservation import Reservation
from rdl.time_grid import TimeGrid
from service.windows import HeldTimes, UnreadWindow, WindowBook, work_entry

#: Most cached texts of reservations, about a kilobyte each; the newest stay.
_MOST: Final = 10_000


class _TextSource(NamedTuple):
    """The Plan and the cluster from which texts were encoded."""

    plan: weakref.ref[Plan]
    cluster: Cluster


class TakenRow(NamedTuple):
    """One reservation as read from the Plan for a list.

    `text` is None if it must be encoded from `reservation`.
    """

    ordinal: int
    stamp: Stamp
    text: msgspec.Raw | None
    reservation: Reservation | None
    begin: int
    finish: int
    held_until: float | None


class TakenRows(NamedTuple):
    """Reservations as read from the Plan for a list, with the inputs of unknown windows."""

    source: _TextSource | None
    rows: Sequence[TakenRow]
    unread: Sequence[UnreadWindow]
    grid: TimeGrid


class ShownRows:
    """Cached JSON of reservations by their constant ordinal and their stamp.

    Parameters
    ----------
    windows
        Cache of the windows of reservations.
    """

    def __init__(self, windows: WindowBook) -> None:
        self._windows = windows
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Stamp, msgspec.Raw]] = {}
        self._source: _TextSource | None = None

    def take(self, plan: Plan, numbers: NDArray[np.int64]) -> TakenRows:
        """Read reservations from the Plan by their numbers; the caller holds its lock."""
        source = self._source
        if source is None or source.plan() is not plan or source.cluster is not plan.cluster:
            source = _TextSource(weakref.ref(plan), plan.cluster)
            with self._lock:  # texts depend on the cluster's machines and time zone
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
        """Return the JSON of each; encode missing ones, which is the slow part."""
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
                return  # encoded for a cluster that has changed since
            for ordinal in written:
                self._known.pop(ordinal, None)
            self._known.update(written)
            for ordinal in list(self._known)[: max(0, len(self._known) - _MOST)]:
                del self._known[ordinal]

"""Archivist: moves reservations that ended long ago from the Plan to the archive.

They leave by a record of the log, so that every process and every later start has the same Plan.
The record and the rows of the archive are one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from planner.plan.plan import Plan
from planner.plan.records.changes import Archive
from planner.reservations.reservation import Refusal, Reservation
from planner.reservations.state import State
from rdl.time_grid import TimeGrid
from service.clock import Clock
from service.commits.commands import refusal_with_requests
from service.commits.replica import Replica
from service.config import ServiceConfig
from service.store.archive import ArchivedRow
from service.windows import HeldTimes, WindowBook, history_of, with_dates

logger = logging.getLogger("agenda.service")

_DAY_MS: Final = 86_400_000

#: Longest time between two checks, ms; a short retention is checked more often.
_LOOK_MS: Final = 60_000

#: Most reservations that leave by one record.
_MOST: Final = 1_000


class Archivist:
    """Periodically archives reservations; used only by the planner thread."""

    def __init__(self, config: ServiceConfig, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock
        self._ended_ms = round(config.ended_days * _DAY_MS)
        self._refused_ms = config.refused_days * _DAY_MS
        self._kept_ms = config.archive_days * _DAY_MS
        self._pause_ms = min(_LOOK_MS, self._ended_ms // 4, self._refused_ms // 4)
        self._look_at_ms = 0

    def tick(self) -> None:
        """Archive some reservations if a check is due; the rest follow at the next call."""
        clock_ms = self._clock.now_ms()
        if self._look_at_ms - self._pause_ms <= clock_ms < self._look_at_ms:
            return
        if self.run() < _MOST:
            self._look_at_ms = clock_ms + self._pause_ms
            if self._replica.store.archive.delete_before(clock_ms - self._kept_ms):
                logger.info("the archive has deleted entries older than %d ms", self._kept_ms)
            self._replica.store.runs.purge(self._replica.plan_ms(clock_ms - self._ended_ms))

    def run(self) -> int:
        """Archive the reservations that may leave; return their number."""
        clock_ms = self._clock.now_ms()
        # A new reservation with such an id would get the work that runs under it.
        in_use = self._replica.store.applications.reservations_in_use()
        with self._replica.newest() as plan:
            leaving = _leavers(
                plan,
                in_use,
                self._replica.plan_ms(clock_ms - self._ended_ms),
                self._replica.plan_ms(clock_ms - self._refused_ms),
            )
            if not leaving:
                return 0
            change = Archive(tuple(one.id for one in leaving))
            at_ms = self._replica.plan_ms(clock_ms)
            record = plan.prepare([change], plan.version, at_ms=at_ms).record
            grid, times = plan.grid, _Times(plan, leaving)
        if record is None:
            return 0
        shown = times.read(grid)
        rows = [_row(one, grid, clock_ms, shown.get(one.id, {})) for one in leaving]
        return len(rows) if self._replica.archive(record, clock_ms, rows) else 0


def _leavers(
    plan: Plan, in_use: frozenset[str], ended_ms: int, refused_ms: int
) -> list[Reservation | Refusal]:
    """Return reservations that ended or were refused before given instants and have no work."""
    step = min(ended_ms // plan.grid.step_ms, plan.past_until)
    numbers = plan.table.ended_before(step, ended_ms).tolist()
    idle = (number for number in numbers if plan.table.id_of(number) not in in_use)
    found: list[Reservation | Refusal] = [plan.table.read(number) for number in islice(idle, _MOST)]
    for refusal in plan.refusals:  # in order of submission, except those refused twice
        if len(found) >= _MOST or refusal.submitted_ms >= refused_ms:
            break
        found.append(refusal)
    return found


class _Times:
    """The times of leaving reservations, in the form shown while they were in the Plan."""

    def __init__(self, plan: Plan, leaving: Sequence[Reservation | Refusal]) -> None:
        self._ids = [one.id for one in leaving if isinstance(one, Reservation)]
        known = (plan.table.number_of(id_) for id_ in self._ids)
        numbers = np.array([one for one in known if one is not None], dtype=np.int64)
        self._book = WindowBook()
        self._unread = self._book.unread(plan, numbers)
        meta = plan.table.meta[numbers]
        self._ordinals = meta["ordinal"].tolist()
        self._ends = meta[["begin", "finish"]].tolist()

    def read(self, grid: TimeGrid) -> dict[str, dict[str, Any]]:
        """Return the times by id; compiling the windows needs no Plan."""
        self._book.read(self._unread)
        windows = self._book.windows(self._ordinals)
        return {
            id_: HeldTimes(begin, finish, window).to_json(grid)
            for id_, (begin, finish), window in zip(self._ids, self._ends, windows, strict=True)
        }


def _row(
    one: Reservation | Refusal, grid: TimeGrid, clock_ms: int, times: Mapping[str, Any]
) -> ArchivedRow:
    if isinstance(one, Refusal):
        state, begin_ms, end_ms = State.REFUSED, one.submitted_ms, one.submitted_ms + 1
        body = refusal_with_requests({**one.to_json(grid), "state": state.value})
    else:
        state = one.state
        rows = [atom.all_rows() for atom in one.atoms if len(atom.rows)]
        begin_ms = min((grid.ms(int(part[:, 0].min())) for part in rows), default=0)
        end_ms = max((grid.ms(int(part[:, 1].max())) for part in rows), default=0)
        body = {
            **with_dates(one.to_json(grid), grid),
            **times,
            "history": list(history_of(one, grid)),
        }
    text = msgspec.json.encode(body)
    return ArchivedRow(one.id, one.tenant, one.queue, state.value, begin_ms, end_ms, clock_ms, text)

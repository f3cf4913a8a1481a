"""LogReplay: applies records of the log to a Plan, and reports those that cannot be applied."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final

import msgspec

from planner.capacity.shortage import Taking
from planner.cluster.cluster import Cluster
from planner.cluster.cost import cost_of
from planner.plan.plan import Plan
from planner.plan.records.commit_records import Advanced, CommitRecord, Reconfigured
from service.events import RecentEvents, RecordEvents
from service.problems import ApiProblemError, ProblemDocument
from service.store import LogEntry

logger = logging.getLogger("agenda.service")

#: Assumed memory of a machine that does not report it.
_UNKNOWN_BYTES: Final = 2**62


class ReplayError(ApiProblemError):
    """A record cannot be applied; every call fails with this error until the record is skipped."""

    def __init__(self, version: int, described: int, why: str) -> None:
        self.version = version
        skipped = " ".join(f"--skip-record {one}" for one in sorted({version, described} - {0}))
        origin = f" (its cluster is that of record {described})" if described else ""
        detail = (
            f"record {version} of the log cannot be applied{origin}: {why}; "
            f"'agenda serve {skipped}' starts without its changes"
        )
        super().__init__(ProblemDocument("unavailable", detail))


class LogReplay:
    """Applies records to a Plan in order.

    Parameters
    ----------
    plan
        The Plan to change; it is incomplete after a ReplayError.
    skipped
        Versions whose records are skipped.
    recent
        Receives the events of each record; None to keep none.
    """

    def __init__(
        self, plan: Plan, skipped: frozenset[int], recent: RecentEvents | None = None
    ) -> None:
        self.plan = plan
        self._recent = recent
        self._skipped = skipped
        self._described = 0
        self._broken: ReplayError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every record so far was applied completely."""
        return self._broken is None

    def require_whole(self) -> None:
        """Raise the error of an earlier record again, because the Plan is incomplete.

        Raises
        ------
        ReplayError
            The earlier error.
        """
        if self._broken is not None:
            raise self._broken

    def apply_entry(self, entry: LogEntry) -> None:
        """Apply a row of the log, unless it is skipped.

        Raises
        ------
        ReplayError
            If it cannot be applied.
        """
        if entry.version in self._skipped:
            logger.warning("record %d is skipped, as --skip-record requested", entry.version)
            self.apply(CommitRecord(entry.version, entry.at_ms, ()))
            return
        try:
            record = CommitRecord.from_json(msgspec.json.decode(entry.record))
        except Exception as error:
            self._broken = ReplayError(entry.version, 0, _error_text(error))
            raise self._broken from error
        self.apply(record)

    def apply(self, record: CommitRecord, takings: Sequence[Taking] | None = None) -> None:
        """Apply a record; `takings` as for `Plan.apply`.

        Raises
        ------
        ReplayError
            If it cannot be applied.
        """
        try:
            self._require_memory(record)
            events = None if self._recent is None else RecordEvents(self.plan, record)
            self.plan.apply(record, takings)
        except Exception as error:
            timed = any(isinstance(one, Advanced) for one in record.changes)
            described = self._described if timed else 0
            self._broken = ReplayError(record.version, described, _error_text(error))
            raise self._broken from error
        if any(isinstance(one, Reconfigured) for one in record.changes):
            self._described = record.version
        if self._recent is not None and events is not None:
            self._recent.add(record.version, events.after())

    def _require_memory(self, record: CommitRecord) -> None:
        """Raise an error before allocating more memory than the machine has."""
        plan = self.plan
        for change in record.changes:
            if isinstance(change, Reconfigured):
                _require(change.cluster, plan.ledger.first, plan.grid.horizon)
            elif isinstance(change, Advanced):
                first = max(change.now_step, plan.ledger.first)
                if change.horizon - first > plan.grid.horizon - plan.ledger.first:
                    _require(plan.cluster, first, change.horizon)


def _require(cluster: Cluster, first: int, end: int) -> None:
    needed, there = sum(one.memory_bytes for one in cost_of(cluster, first, end)), _memory_bytes()
    if needed > there:
        raise MemoryError(
            f"planning would take {needed / 2**30:.1f} GiB of memory, and this machine has "
            f"{there / 2**30:.1f} GiB"
        )


def _memory_bytes() -> int:
    """Return the memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return _UNKNOWN_BYTES


def _error_text(error: Exception) -> str:
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name

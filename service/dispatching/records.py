"""Records of the dispatch leader in the database, for its successor and all processes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

from dispatch.entitlements.start_delay import NO_DELAY, StartDelayTable
from dispatch.executions.execution import Execution
from dispatch.tables import LiveTables
from planner.plan.plan import Plan
from rdl.resources import CPU
from service.dispatching.documents import read_document
from service.store import ApplicationRows, PageOf, Store

_SETTING: Final = "dispatch_table"

#: Most steps stored for an application; beyond that, the oldest are merged into their mean.
MOST_STEPS = 400

#: Applications per read.
_PAGE: Final = 1000

_DELAYS: Final = "start_delays"


def keep_table(store: Store, tables: LiveTables, plan: Plan, at_ms: int) -> int:
    """Store the current table; return its version."""
    table, version = tables.table_at(plan, at_ms)
    record = {
        "version": version,
        "at_ms": at_ms,
        "load": tables.load,
        "problem": tables.problem,
        "table": None if table is None else table.to_json(),
    }
    store.replace_setting(_SETTING, msgspec.json.encode(record).decode())
    return version


def read_table_record(store: Store) -> dict[str, Any]:
    """Return the last stored record; empty before the first."""
    kept = store.find_setting(_SETTING)
    found: dict[str, Any] = {} if kept is None else msgspec.json.decode(kept)
    return found


# Their number changes while an application runs, so that its start and end do not determine its
# use. The leading process adds a step whenever the number changes; the steps are part of the
# application's stored status, and the next leader continues them.


class ElasticUse(msgspec.Struct):
    """Cores in use over time, as steps.

    Attributes
    ----------
    elastic
        (start in ms from the Plan's origin, millicores from then on), in order of time.
    """

    elastic: list[tuple[int, int]] = []

    def observe(self, at_ms: int, millicores: int) -> None:
        """Add a step, unless the number is unchanged."""
        last = self.elastic[-1][1] if self.elastic else 0
        if millicores == last:
            return
        if self.elastic and self.elastic[-1][0] >= at_ms:
            at_ms = self.elastic.pop()[0]
        self.elastic.append((at_ms, millicores))
        if len(self.elastic) > MOST_STEPS:
            self._merge_oldest()

    def _merge_oldest(self) -> None:
        """Replace the first two steps by their mean, which preserves the core-hours."""
        (start, first), (middle, second), (end, _) = self.elastic[:3]
        mean = round((first * (middle - start) + second * (end - middle)) / (end - start))
        self.elastic[:2] = [(start, mean)]

    def core_ms(self, start_ms: int, end_ms: int) -> float:
        """Return the use within [start_ms, end_ms), in cores times milliseconds."""
        return sum(
            max(0, min(until, end_ms) - max(since, start_ms)) * millicores / 1000
            for since, until, millicores in self._spans(end_ms)
        )

    def _spans(self, end_ms: int) -> Iterator[tuple[int, int, int]]:
        for (since, millicores), (until, _) in pairwise([*self.elastic, (end_ms, 0)]):
            yield since, until, millicores


def elastic_millicores(execution: Execution) -> int:
    """Return the millicores of the running elastic components."""
    return sum(
        part.running * part.component.resources.get(CPU, 0)
        for part in execution.parts
        if not part.component.core
    )


def ended_work(rows: ApplicationRows) -> Iterator[tuple[str, str | None]]:
    """Yield the reservation, and the atom or None, of every ended application.

    Parameters
    ----------
    rows
        Rows of applications; all are read.
    """
    after: tuple[int, str] | None = None
    while True:
        page = rows.page(PageOf(after, limit=_PAGE))
        for row in page:
            if row.over:
                application = read_document(row.document).application
                if application.entitled_by is not None:
                    yield application.entitled_by, application.atom
        if len(page) < _PAGE:
            return
        after = page[-1].submitted_ms, page[-1].id


def in_seconds(table: StartDelayTable) -> StartDelayTable:
    """Return delays in whole seconds, rounded up, so that they change seldom."""
    return StartDelayTable(
        {kind: -(-delay_ms // 1000) * 1000 for kind, delay_ms in table.delays_ms.items()}
    )


def keep_delays(store: Store, table: StartDelayTable) -> None:
    """Store the learnt delays."""
    record = [[name, size, delay_ms] for (name, size), delay_ms in sorted(table.delays_ms.items())]
    store.replace_setting(_DELAYS, msgspec.json.encode(record).decode())


def read_delays(store: Store) -> StartDelayTable:
    """Return the delays last stored by any process; no delays before the first."""
    kept = store.find_setting(_DELAYS)
    if kept is None:
        return NO_DELAY
    record = msgspec.json.decode(kept, type=list[tuple[str, int, int]])
    return StartDelayTable({(name, size): delay_ms for name, size, delay_ms in record})

"""An application as stored by a server, and the status of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dispatch.applications.application import Application
from dispatch.applications.document import COVERS, application_from_json, application_to_json
from planner.cluster.cluster import DEFAULT_QUEUE
from planner.files import dispatch_to_json

if TYPE_CHECKING:
    from dispatch.cycle.cycle import Cycle
    from dispatch.cycle.quota_book import QuotaUse
    from dispatch.executions.execution import Execution
    from dispatch.executions.table import ExecutionTable
    from planner.cluster.dispatch_policy import DispatchPolicy


@dataclass(frozen=True, slots=True)
class Document:
    """Stored form of a submission.

    Attributes
    ----------
    application
        As read; with the reservation and atom under which it runs.
    after
        Paths of the reservation's atoms that precede its own.
    close_on_end
        Whether the rest of its reservation is released when it has completed.
    queue
        Queue under which policies count it.
    needs
        Ids of the applications that must succeed before it starts.
    awaits_slot
        Whether it may not start before its slot begins.
    on_late
        Its reaction if it is late; empty: it continues.
    done
        Its tasks that an earlier attempt has done.
    """

    application: Application
    after: tuple[str, ...]
    close_on_end: bool = False
    queue: str = DEFAULT_QUEUE
    needs: tuple[str, ...] = ()
    awaits_slot: bool = False
    on_late: str = ""
    done: tuple[int, ...] = ()


def read_document(raw: bytes) -> Document:
    """Decode the output of :func:`encode_document`."""
    found = msgspec.json.decode(raw)
    return Document(
        application_from_json(found["application"]),
        tuple(found["after"]),
        found.get("close_on_end", False),
        found.get("queue", DEFAULT_QUEUE),
        tuple(found.get("needs", ())),
        found.get("awaits_slot", False),
        found.get("on_late", ""),
        tuple(found.get("done", ())),
    )


class _UnderReservation(msgspec.Struct):
    """The fields of an application that determine its reservation."""

    reservation: str | None = None
    cover: str = COVERS[0]


class _Submission(msgspec.Struct):
    """The fields of a submission that determine its quotas."""

    application: _UnderReservation
    queue: str = DEFAULT_QUEUE


_DECODER = msgspec.json.Decoder(_Submission)


def counted_in(raw: bytes) -> tuple[str | None, str]:
    """Return the covering reservation and the queue of an encoded document."""
    found = _DECODER.decode(raw)
    is_covered = found.application.cover == COVERS[0]
    return found.application.reservation if is_covered else None, found.queue


def encode_document(document: Document) -> bytes:
    """Encode the stored form of a submission as JSON."""
    entry: dict[str, Any] = {
        "application": application_to_json(document.application),
        "after": list(document.after),
        "close_on_end": document.close_on_end,
        "queue": document.queue,
    }
    if document.needs:
        entry["needs"] = list(document.needs)
    if document.awaits_slot:
        entry["awaits_slot"] = True
    if document.on_late:
        entry["on_late"] = document.on_late
    if document.done:
        entry["done"] = list(document.done)
    return msgspec.json.encode(entry)


def status_of(execution: Execution) -> dict[str, Any]:
    """Return the status of an execution."""
    started, ended = execution.started_ms, execution.ended_ms
    return {
        "reason": execution.reason,
        "retries": execution.retries_used,
        "tasks": None if execution.tasks is None else execution.tasks.to_json(),
        "started": None if started is None else started / 1000,
        "ended": None if ended is None else ended / 1000,
        "components": [
            {
                "name": part.component.name,
                "core": part.component.core,
                "wanted": part.wanted,
                "grown": part.growth,
                "reason": part.limit or part.quota or part.uncovered,
                "assigned": len(part.held),
                "running": sum(piece.up for piece in part.held),
                "covered": min(part.covered, len(part.held)),
            }
            for part in execution.parts
        ],
    }


def assignment_of(
    table: ExecutionTable,
    cycle: Cycle,
    policy: DispatchPolicy,
    running: dict[str, list[int]],
    quotas: Sequence[QuotaUse],
) -> bytes:
    """Return the JSON of `/v1/assignments` after a cycle; times in seconds.

    `running` is the number of running components by group and class of the dispatch table, for
    `/v1/dispatch/table`; `quotas` is for `/v1/policies`.
    """
    rows = [row.to_json() for row in table.assignment().rows]
    document = {
        "at": cycle.at_ms / 1000,
        "plan_version": cycle.plan_version,
        "table_version": cycle.table_version,
        "policy": dispatch_to_json(policy),
        "below": sorted(cycle.below),
        "running": running,
        "quotas": quotas,
        "rows": rows,
    }
    return msgspec.json.encode(document)

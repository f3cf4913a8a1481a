"""Encode a whole Plan as bytes and back, so that a restart need not replay every record.

`take_checkpoint` copies columns and lists in milliseconds for a hundred thousand reservations, so
it may run while others wait; `Checkpoint.encode` does the slow part and needs no Plan. Columns are
stored with their field names, so that a later version with more fields still reads an older
checkpoint.
"""
# ruff: noqa: SLF001 - saving and restoring is the one other place that knows the table's columns

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.plan.plan import Plan
from planner.plan.records.reservation_records import Hold, Refused
from planner.plan.table import ReservationTable
from planner.plan.table_columns import Column, IdIndex, Kept, pack
from planner.reservations.reservation import Degradation, HistoryEntry, Refusal
from planner.reservations.slots import ANYWHERE, MachineRule
from planner.reservations.state import LIVE
from rdl.resources import Resources

#: Format version of the document; a reader rejects an unknown version.
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An immutable copy of the whole state of a Plan."""

    head: dict[str, Any]
    columns: tuple[NDArray[Any], ...]
    words: dict[str, Any]
    details: tuple[Kept, ...]
    history: dict[int, tuple[HistoryEntry, ...]]
    released: dict[int, NDArray[np.int64]]
    refusals: tuple[Refusal, ...]

    @property
    def version(self) -> int:
        """Version of the Plan it was taken from."""
        version: int = self.head["version"]
        return version

    def encode(self) -> bytes:
        """Return the state as bytes."""
        document = {
            "format": FORMAT,
            **self.head,
            "columns": [[column.dtype.descr, column.tobytes()] for column in self.columns],
            **self.words,
            "details": [pack(one) for one in self.details],
            "history": [
                [number, [[e.at_ms, e.version, e.what, e.detail, e.lost] for e in entries]]
                for number, entries in self.history.items()
            ],
            "released": [[index, rows.tolist()] for index, rows in self.released.items()],
            "refusals": [Refused(one).to_json() for one in self.refusals],
        }
        return zlib.compress(msgspec.msgpack.encode(document), level=1)


def take_checkpoint(plan: Plan) -> Checkpoint:
    """Copy the state of a Plan; the caller ensures that nothing changes meanwhile."""
    table = plan.table
    head = {
        "version": plan.version,
        "now": plan.now,
        "first": plan.ledger.first,
        "horizon": plan.grid.horizon,
        "cluster": cluster_to_json(plan.cluster),
    }
    words = {
        "ids": list(table._ids),
        "names": list(table._names.values),
        "paths": list(table._paths.values),
        "kinds": [[dict(bundle), label, list(rule)] for bundle, label, rule in table._kinds.values],
        "shifts": list(table._shifts.values),
        "idle_rows": table._idle_rows,
        "idle_slots": table._idle_slots,
        "holds": [[n, one.to_json()] for n, one in table.holds.items()],
        "admitted": table.admitted,
        "earlier_tenants": list(table.earlier_tenants),
        "degradations": [[n, one.to_json()] for n, one in table.degradations.items()],
    }
    return Checkpoint(
        head,
        tuple(column.copy().data for column in _columns_of(table)),
        words,
        tuple(table.details._kept),
        {number: tuple(entries) for number, entries in table._history.items()},
        dict(table._released),
        plan.refusals,
    )


def read_checkpoint(encoded: bytes) -> Plan:
    """Return the Plan whose state was encoded.

    Raises
    ------
    ValueError
        If the bytes are of another format, or damaged.
    """
    try:
        document = msgspec.msgpack.decode(zlib.decompress(encoded))
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"this is no state of a plan: {error}") from error
    if document.get("format") != FORMAT:
        raise ValueError(f"a state of format {document.get('format')} cannot be read")
    cluster = cluster_from_json(document["cluster"], "the stored plan")
    grid = cluster.grid().with_horizon(document["horizon"])
    plan = Plan(cluster, grid)
    plan.version, plan.now = document["version"], document["now"]
    plan.ledger = FreeProfile(CapacityRows(cluster), grid, document["first"])
    _fill_table(plan.table, document)
    for entry in document["refusals"]:
        refusal = Refused.from_json(entry).refusal
        plan._refusals[refusal.id] = refusal
    plan.take_all()
    for number in range(len(plan.table)):
        if plan.table.state(number) in LIVE:
            scope = plan.table.scope(number)
            plan._live[scope] = plan._live.get(scope, 0) + 1
    return plan


def _fill_table(table: ReservationTable, document: dict[str, Any]) -> None:
    # A checkpoint from before slots has three columns.
    for column, (descr, data) in zip(_columns_of(table), document["columns"], strict=False):
        _fill_column(column, np.frombuffer(data, np.dtype([(n, k) for n, k in descr])))
    table._ids = document["ids"]
    table._numbers = IdIndex(table._ids)
    for name in document["names"]:
        table._names.number(name)
    for path in document["paths"]:
        table._paths.number(_frozen(path))
    for bundle, label, *rule in document["kinds"]:
        kind = (Resources.of(bundle), label, MachineRule(*rule[0]) if rule else ANYWHERE)
        table._kinds.number(kind)
    for shifts in document["shifts"]:
        table._shifts.number(_frozen(shifts))
    table._idle_rows = document["idle_rows"]
    table._idle_slots = document.get("idle_slots", 0)
    table.admitted = document.get("admitted", len(table._ids))
    table.earlier_tenants = tuple(document.get("earlier_tenants", ()))
    if "admitted" not in document:  # a checkpoint from before reservations were archived
        table.meta["ordinal"] = np.arange(len(table._ids))
    table.details._kept = document["details"]
    for number, entry in document.get("degradations", ()):
        table.degradations[number] = Degradation.from_json(entry)
    for number, hold in document.get("holds", ()):
        table.holds[number] = Hold.from_json(hold)
    for number, entries in document["history"]:
        table._history[number] = [
            HistoryEntry(at_ms, version, what, detail, None if lost is None else (lost[0], lost[1]))
            for at_ms, version, what, detail, lost in entries
        ]
    for index, rows in document["released"]:
        table._released[index] = np.array(rows, dtype=np.int64).reshape(-1, 3)


def _columns_of(table: ReservationTable) -> tuple[Column, ...]:
    return table._meta, table._atoms, table._rows, table._slots


def _fill_column(column: Column, stored: NDArray[Any]) -> None:
    """Copy fields by name; a field that is not stored becomes zero."""
    wanted = np.zeros(len(stored), dtype=column.data.dtype)
    for name in stored.dtype.names or ():
        if name in (wanted.dtype.names or ()):
            wanted[name] = stored[name]
    column.count = 0
    column.append(wanted, len(wanted))


def _frozen(value: Any) -> Any:
    """Turn decoded lists back into tuples."""
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value

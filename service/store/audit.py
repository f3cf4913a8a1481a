"""The audit: one row per change, written in the transaction of the change, and never pruned.

A commit record says how the Plan changes, and is pruned with the log; the audit says who requested
it, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from service.access.user import Actor
from service.store.schema import audit

#: Kinds of changes: to reservations, named as in commit records, then others.
AUDIT_KINDS: Final = (
    "admit", "hold_accepted", "refuse", "update", "degrade", "relocate", "release", "end",
    "cluster", "submit_application", "end_application", "create_token", "revoke_token",
    "create_webhook", "delete_webhook",
    "register_executor", "remove_executor", "start_optimization", "stop_optimization",
    "apply_optimization", "undo_optimization", "delete_optimization", "start_comparison",
    "stop_comparison", "delete_comparison",
)  # fmt: skip

#: Longest stored call and detail.
_LONGEST: Final = 256

#: Tenant and id of an object.
AuditKey: TypeAlias = tuple[str, str]

#: Ids of one query.
_IDS: Final = 500


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change: by whom, when, from where, and of what.

    Attributes
    ----------
    actor
        Its user, address and call.
    at_ms
        Unix ms.
    kind
        One of `AUDIT_KINDS`.
    about
        Id of the changed object; empty for the cluster.
    tenant
        Tenant of the object; empty if none.
    detail
        The code of a refusal, the final state, or the changed parts of the cluster.
    version
        The version of the Plan that it created; None if none.
    """

    actor: Actor
    at_ms: int
    kind: str
    about: str = ""
    tenant: str = ""
    detail: str = ""
    version: int | None = None

    def values(self) -> dict[str, Any]:
        """Return the values of the table's columns."""
        return {
            "at_ms": self.at_ms,
            "version": self.version,
            "name": self.actor.user.name,
            "address": self.actor.address,
            "call": self.actor.call[:_LONGEST],
            "kind": self.kind,
            "tenant": self.tenant,
            "about": self.about,
            "detail": self.detail[:_LONGEST],
        }


@dataclass(frozen=True, slots=True)
class KeptAuditRow:
    """A stored row; `number` is increasing, possibly with gaps."""

    number: int
    at_ms: int
    version: int | None
    name: str
    address: str
    call: str
    kind: str
    tenant: str
    about: str
    detail: str


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filter of rows: None does not filter; times are Unix ms, [start_ms, end_ms)."""

    name: str | None = None
    tenant: str | None = None
    kind: str | None = None
    about: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None


class AuditRows:
    """The audit of one database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def page(self, wanted: AuditFilter, before: int | None, limit: int) -> Sequence[KeptAuditRow]:
        """Return rows with numbers below `before`, newest first."""
        table = audit.c
        query = sa.select(audit).order_by(table.number.desc()).limit(limit)
        if before is not None:
            query = query.where(table.number < before)
        for column, value in (
            (table.name, wanted.name),
            (table.tenant, wanted.tenant),
            (table.kind, wanted.kind),
            (table.about, wanted.about),
        ):
            if value is not None:
                query = query.where(column == value)
        if wanted.start_ms is not None:
            query = query.where(table.at_ms >= wanted.start_ms)
        if wanted.end_ms is not None:
            query = query.where(table.at_ms < wanted.end_ms)
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            found = connection.execute(query).mappings().all()
        return [KeptAuditRow(**{str(name): row[name] for name in row}) for row in found]

    def users_of(self, ids: Sequence[str], kinds: Sequence[str]) -> dict[AuditKey, str]:
        """Return the user of the latest change of these kinds, by tenant and id."""
        table, found = audit.c, dict[AuditKey, str]()
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            for first in range(0, len(ids), _IDS):
                query = sa.select(table.tenant, table.about, table.name).order_by(table.number)
                here = table.about.in_(ids[first : first + _IDS])
                rows = connection.execute(query.where(here, table.kind.in_(kinds)))
                found.update({(row.tenant, row.about): row.name for row in rows})
        return found


def write_audit(connection: sa.Connection, row: AuditRow) -> None:
    """Write a row in an open transaction."""
    connection.execute(sa.insert(audit).values(row.values()))

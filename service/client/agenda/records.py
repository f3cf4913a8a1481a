"""What a server answers, as typed records; `raw` holds all it said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

#: States out of which nothing leads.
FINAL_STATES: Final = frozenset({"completed", "cancelled", "failed", "refused"})


class RequestFields(TypedDict, total=False):
    """What may be said of a request alongside its RDL; docs/api.md has the meanings."""

    id: str
    tenant: str
    queue: str
    weight: float
    priority: int
    agent: str
    promise: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A request that would be accepted instead of one that was refused.

    Attributes
    ----------
    kind
        What changes: ``deadline``, ``start``, ``size`` or ``option``.
    asked, offered
        What was asked of it and what is offered, in the units of docs/explain.md.
    request
        The whole request to submit; None if the server names none.
    expression
        Its RDL.
    """

    kind: str
    asked: Any
    offered: Any
    expression: str
    request: Mapping[str, Any] | None
    raw: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def all_of(body: Mapping[str, Any]) -> tuple[Offer, ...]:
        """Return the offers that an answer holds."""
        return tuple(
            Offer(
                kind=one["change"]["kind"],
                asked=one["change"].get("asked"),
                offered=one["change"].get("offered"),
                expression=one["expression"],
                request=one.get("request"),
                raw=one,
            )
            for one in body.get("offers") or ()
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation, or a request that was refused.

    Attributes
    ----------
    state
        ``accepted``, ``active``, ``completed``, ``cancelled``, ``degraded``, ``failed`` or
        ``refused``.
    revision
        Rises with each change of its own; 0 of a refusal.
    begin, finish
        When it first and last holds something; None of a refusal, and where it has no end (the
        answer to `submit` then has the end of what is planned by now).
    code, detail, offers
        Of a refusal: why, and what would be accepted instead.
    atoms
        What it holds, as plan files have it: ``[{path, bundle, allocation}]``.
    priority
        On the scale that all requests of a server share; larger goes first.
    displaced
        In the answer to `submit` and `update`: the outcome of those that it displaced,
        ``[{id, fate, reason}]``.
    """

    id: str
    tenant: str
    queue: str
    state: str
    expression: str
    revision: int
    begin: datetime | None
    finish: datetime | None
    code: str | None
    detail: str | None
    offers: tuple[Offer, ...]
    atoms: tuple[Mapping[str, Any], ...] = field(repr=False)
    raw: Mapping[str, Any] = field(repr=False)
    priority: int = 0
    displaced: tuple[Mapping[str, Any], ...] = ()

    @staticmethod
    def of(body: Mapping[str, Any]) -> Reservation:
        """Return what a server answers as a record."""
        begin, finish = _ends(body)
        return Reservation(
            id=body["id"],
            tenant=body["tenant"],
            queue=body["queue"],
            state=body.get("state", "refused"),
            expression=body["expression"],
            revision=body.get("revision", 0),
            begin=begin,
            finish=finish,
            code=body.get("code"),
            detail=body.get("detail"),
            offers=Offer.all_of(body),
            atoms=tuple(body.get("atoms", ())),
            raw=body,
            priority=body.get("priority", 0),
            displaced=tuple(body.get("displaced", ())),
        )

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """Whether a request would be accepted as it is, and what would be instead."""

    accepted: bool
    version: int
    refusal: Mapping[str, Any] | None
    offers: tuple[Offer, ...]

    @staticmethod
    def of(body: Mapping[str, Any]) -> OfferAnswer:
        """Return what a server answers as a record."""
        return OfferAnswer(
            accepted=body["accepted"],
            version=body["version"],
            refusal=body["refusal"],
            offers=Offer.all_of(body),
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """Capacity that is kept for a short while.

    Attributes
    ----------
    id
        Of the hold, and of its reservation.
    until
        When it ends by itself.
    reservation
        What is held; None in a list.
    """

    id: str
    holder: str
    until: datetime
    reservation: Reservation | None

    @staticmethod
    def of(body: Mapping[str, Any]) -> Hold:
        """Return what a server answers as a record."""
        held = body.get("reservation")
        return Hold(
            id=body["id"],
            holder=body["holder"],
            until=datetime.fromisoformat(body["until_at"]),
            reservation=None if held is None else Reservation.of(held),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a server (docs/events.md).

    Attributes
    ----------
    id
        To continue behind it; None of events that a stream begins with or tells again.
    kind
        ``accepted``, ``begun``, ``ended``, ``commit`` and others.
    reservation, tenant
        Whom it is about, where it is about one.
    """

    kind: str
    id: str | None
    reservation: str | None
    tenant: str | None
    data: Mapping[str, Any]

    @staticmethod
    def of(kind: str, data: Mapping[str, Any]) -> Event:
        """Return what a server tells as a record."""
        return Event(
            kind=kind,
            id=data.get("id"),
            reservation=data.get("reservation"),
            tenant=data.get("tenant"),
            data=data,
        )


def _ends(body: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Return begin and finish, from what is held where the answer does not say them."""
    rows = [row for atom in body.get("atoms", ()) for row in atom["allocation"]]
    if "begin_at" in body or not rows or "submitted_at" not in body:
        return _instant(body.get("begin_at")), _instant(body.get("finish_at"))
    origin = datetime.fromisoformat(body["submitted_at"]) - timedelta(seconds=body["submitted"])
    begin, finish = min(row[0] for row in rows), max(row[1] for row in rows)
    return origin + timedelta(seconds=begin), origin + timedelta(seconds=finish)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

"""Answers of a server as typed records; `raw` has the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

#: States that never change.
FINAL_STATES: Final = frozenset({"completed", "cancelled", "failed", "refused"})


class RequestFields(TypedDict, total=False):
    """The fields of a request in addition to its RDL, as described in docs/api.md."""

    id: str
    tenant: str
    queue: str
    weight: float
    priority: int
    agent: str
    promise: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A request that would be accepted instead of a refused one.

    Attributes
    ----------
    kind
        What changes: ``deadline``, ``start``, ``size`` or ``option``.
    asked, offered
        The requested and the offered value of that, in the units of docs/explain.md.
    request
        The complete request to submit; None if the answer has none.
    expression
        RDL of the offered request.
    """

    kind: str
    asked: Any
    offered: Any
    expression: str
    request: Mapping[str, Any] | None
    raw: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def all_of(body: Mapping[str, Any]) -> tuple[Offer, ...]:
        """Return the offers in an answer."""
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
    """A reservation or a refused request.

    Attributes
    ----------
    state
        ``accepted``, ``active``, ``completed``, ``cancelled``, ``degraded``, ``failed`` or
        ``refused``.
    revision
        Increases with each change of the reservation; 0 for a refusal.
    begin, finish
        Start and end of the allocation; None for a refusal, and for a missing end (the answer to
        `submit` then has the end of the part that is planned so far).
    code, detail, offers
        For a refusal: the reason, and requests that would be accepted instead.
    atoms
        The allocation in the form of plan files: ``[{path, bundle, allocation}]``.
    priority
        On one scale for all requests of a server; larger values come first.
    displaced
        In the answer to `submit` and `update`: the outcome of displaced reservations,
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
        """Return a server's answer as a record."""
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
        """Whether its state will not change any more."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """Whether a request would be accepted unchanged, and offers if not."""

    accepted: bool
    version: int
    refusal: Mapping[str, Any] | None
    offers: tuple[Offer, ...]

    @staticmethod
    def of(body: Mapping[str, Any]) -> OfferAnswer:
        """Return a server's answer as a record."""
        return OfferAnswer(
            accepted=body["accepted"],
            version=body["version"],
            refusal=body["refusal"],
            offers=Offer.all_of(body),
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """Capacity that is reserved for a short time.

    Attributes
    ----------
    id
        The id of the hold and of its reservation.
    until
        When it expires.
    reservation
        The reservation of the hold; None in a list.
    """

    id: str
    holder: str
    until: datetime
    reservation: Reservation | None

    @staticmethod
    def of(body: Mapping[str, Any]) -> Hold:
        """Return a server's answer as a record."""
        held = body.get("reservation")
        return Hold(
            id=body["id"],
            holder=body["holder"],
            until=datetime.fromisoformat(body["until_at"]),
            reservation=None if held is None else Reservation.of(held),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a server (docs/events.md).

    Attributes
    ----------
    id
        The position from which to continue; None for events of the stream itself or repeated ones.
    kind
        ``accepted``, ``begun``, ``ended``, ``commit`` and others.
    reservation, tenant
        The reservation and tenant of the event, if it has one.
    """

    kind: str
    id: str | None
    reservation: str | None
    tenant: str | None
    data: Mapping[str, Any]

    @staticmethod
    def of(kind: str, data: Mapping[str, Any]) -> Event:
        """Return an event of a server's stream as a record."""
        return Event(
            kind=kind,
            id=data.get("id"),
            reservation=data.get("reservation"),
            tenant=data.get("tenant"),
            data=data,
        )


def _ends(body: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Return begin and finish, computed from the allocation if the answer lacks them."""
    rows = [row for atom in body.get("atoms", ()) for row in atom["allocation"]]
    if "begin_at" in body or not rows or "submitted_at" not in body:
        return _instant(body.get("begin_at")), _instant(body.get("finish_at"))
    origin = datetime.fromisoformat(body["submitted_at"]) - timedelta(seconds=body["submitted"])
    begin, finish = min(row[0] for row in rows), max(row[1] for row in rows)
    return origin + timedelta(seconds=begin), origin + timedelta(seconds=finish)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)

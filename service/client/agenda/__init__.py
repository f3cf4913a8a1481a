"""A client of Agenda servers: request, watch, change and cancel reservations.

>>> import agenda
>>> client = agenda.Client("http://127.0.0.1:8080")  # doctest: +SKIP
>>> client.submit("window(atom(<1 cpu>, 1, 10, 10m, 2h), +0, +6h)", id="nightly")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenda.client import Client, ListFilter, has_reached
from agenda.errors import (
    AgendaError,
    ForbiddenError,
    ForeignAnswerError,
    MalformedRequestError,
    NotFoundError,
    ProblemError,
    RateLimitError,
    RefusedError,
    ServerAwayError,
    ServerFaultError,
    SettingError,
    StaleRevisionError,
    StateConflictError,
    UnauthenticatedError,
    WaitTimeoutError,
)
from agenda.jobs import Job, JobFields, LogPiece, read_job
from agenda.records import Event, Hold, Offer, OfferAnswer, RequestFields, Reservation
from agenda.retries import Retries

if TYPE_CHECKING:
    from agenda.async_client import AsyncClient

__all__ = [
    "AgendaError",
    "AsyncClient",
    "Client",
    "Event",
    "ForbiddenError",
    "ForeignAnswerError",
    "Hold",
    "Job",
    "JobFields",
    "ListFilter",
    "LogPiece",
    "MalformedRequestError",
    "NotFoundError",
    "Offer",
    "OfferAnswer",
    "ProblemError",
    "RateLimitError",
    "RefusedError",
    "RequestFields",
    "Reservation",
    "Retries",
    "ServerAwayError",
    "ServerFaultError",
    "SettingError",
    "StaleRevisionError",
    "StateConflictError",
    "UnauthenticatedError",
    "WaitTimeoutError",
    "has_reached",
    "read_job",
]


def __getattr__(name: str) -> object:
    """Import AsyncClient on first use, so that other programs do not wait for asyncio."""
    if name == "AsyncClient":
        from agenda.async_client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module 'agenda' has no attribute {name!r}")

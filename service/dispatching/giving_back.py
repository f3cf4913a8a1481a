"""Reservations closed and rows released by the dispatcher."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from planner.plan.changes import Release
from service.commits.commands import Answer, Closing, Command, Releasing, Rendered
from service.problems import ApiProblemError

logger = logging.getLogger("agenda.service")

#: Has a change made, and answers with what the function makes of it.
Make: TypeAlias = Callable[[Command, Callable[[Sequence[Answer]], Rendered]], object]


def close_reservation(make: Make, id_: str) -> None:
    """Close a reservation for the dispatcher; one that is over already stays as it is."""
    try:
        make(Closing(id_, None), lambda _: Rendered(200, b""))
    except ApiProblemError as error:
        logger.warning("the rest of %s is not given back: %s", id_, error)


def release_rows(make: Make, change: Release) -> None:
    """Give rows back for the dispatcher; one that has changed since is judged again."""
    try:
        make(Releasing(change), lambda _: Rendered(200, b""))
    except ApiProblemError as error:
        logger.warning("nothing of %s is given back: %s", change.id, error)

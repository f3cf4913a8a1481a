"""Rules for retrying a call, and the pauses between attempts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final

from agenda.connection import Reply
from agenda.errors import ServerAwayError

#: Statuses of a server that is starting, stopping or full, or of a proxy in front of it.
LATER: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

#: Default time after which a call is not retried, seconds.
DEFAULT_WITHIN_S: Final = 120.0

#: The longest Retry-After of a server that is obeyed, seconds.
_LONGEST_S: Final = 60.0


class Repeatable(Enum):
    """The effect of sending a call twice."""

    HARMLESS = "harmless"  # it reads, or has an Idempotency-Key
    UNKNOWN = "unknown"  # it may change something twice, or learn that it already did


@dataclass(frozen=True, slots=True)
class Retries:
    """Rules for retrying a call while the server is unavailable or full.

    Attributes
    ----------
    pauses_s
        Seconds before each retry; empty: no retries.
    jitter
        Random share of a pause, so that many clients do not retry at the same time.
    patient
        Whether to wait also for a server that has never answered; else that is an immediate error.
    within_s
        Seconds from the first attempt after which there are no retries, whatever Retry-After says;
        None: no limit.
    notice
        Called before the first pause.
    pause, draw, clock
        Wait, draw a number from [0, 1), and return monotonic seconds.
    """

    pauses_s: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    jitter: float = 0.25
    patient: bool = True
    within_s: float | None = DEFAULT_WITHIN_S
    notice: Callable[[], None] | None = None
    pause: Callable[[float], object] = time.sleep
    draw: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic

    def answer(self, send: Callable[[], Reply], repeatable: Repeatable) -> Reply:
        """Send a call until it is answered, retrying once after each pause at most.

        Returns
        -------
        Reply
            The last reply; its status may still be in `LATER`.

        Raises
        ------
        ServerAwayError
            If the server does not answer, or the call may not be sent again.
        """
        lost, began_s = False, self.clock()
        for pause_s in self.pauses_s:
            try:
                reply = send()
                if not _is_later(reply, repeatable):
                    return reply
                length_s = self._length_s(pause_s, reply.retry_after)
                if self._is_too_late(began_s, length_s):
                    return reply
            except ServerAwayError as error:
                length_s = self._length_s(pause_s, None)
                late = self._is_too_late(began_s, length_s)
                if late or not self._may_repeat(error, repeatable, lost):
                    raise
            if not lost and self.notice is not None:
                self.notice()
            lost = True
            self.pause(length_s)
        return send()

    def _is_too_late(self, began_s: float, length_s: float) -> bool:
        """Return whether a pause would end after the time limit."""
        return self.within_s is not None and self.clock() - began_s + length_s > self.within_s

    def _may_repeat(self, error: ServerAwayError, repeatable: Repeatable, lost: bool) -> bool:
        if error.sent:
            return repeatable is Repeatable.HARMLESS
        return lost or self.patient

    def _length_s(self, pause_s: float, asked_s: float | None) -> float:
        drawn = pause_s * (1 + self.jitter * self.draw())
        return drawn if asked_s is None else max(drawn, min(asked_s, _LONGEST_S))


def _is_later(reply: Reply, repeatable: Repeatable) -> bool:
    """Return whether to retry; after 5xx it is unknown whether a change was made."""
    if repeatable is Repeatable.UNKNOWN:
        return reply.status == HTTPStatus.TOO_MANY_REQUESTS
    return reply.status in LATER

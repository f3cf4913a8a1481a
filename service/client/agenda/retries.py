"""When a call is sent again, and how long is waited before."""

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

#: Answers of a server that comes up, stops or is full, or of a proxy before it.
LATER: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

#: Seconds after which a call is not sent again, if nothing else is said.
DEFAULT_WITHIN_S: Final = 120.0

#: Longest that a server is obeyed which asks to be asked later, seconds.
_LONGEST_S: Final = 60.0


class Repeatable(Enum):
    """What sending a call twice would do."""

    HARMLESS = "harmless"  # it reads, or has an Idempotency-Key
    UNKNOWN = "unknown"  # it may change something twice, or learn that it already did


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is sent again while the server is unavailable or full, and when.

    Attributes
    ----------
    pauses_s
        Seconds before the second sending, the third and so on; none: never again.
    jitter
        Share of a pause that is drawn at random, so that many clients do not come back at once.
    patient
        Whether a server that was never there is waited for too; else it is an error at once.
    within_s
        Seconds from the first sending after which nothing is sent again, however long the server
        asks to wait; None: no such limit.
    notice
        Told before the first pause.
    pause, draw, clock
        What waits, what draws from [0, 1), and seconds that only move forward.
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
        """Send a call until it is answered, at most again than there are pauses.

        Returns
        -------
        Reply
            The last one; it may still be one of LATER.

        Raises
        ------
        ServerAwayError
            If nothing answers, or it may not be sent again.
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
        """Return whether a pause would end after all the time there is."""
        return self.within_s is not None and self.clock() - began_s + length_s > self.within_s

    def _may_repeat(self, error: ServerAwayError, repeatable: Repeatable, lost: bool) -> bool:
        if error.sent:
            return repeatable is Repeatable.HARMLESS
        return lost or self.patient

    def _length_s(self, pause_s: float, asked_s: float | None) -> float:
        drawn = pause_s * (1 + self.jitter * self.draw())
        return drawn if asked_s is None else max(drawn, min(asked_s, _LONGEST_S))


def _is_later(reply: Reply, repeatable: Repeatable) -> bool:
    """Return whether to ask again; 5xx leaves open whether a change was made."""
    if repeatable is Repeatable.UNKNOWN:
        return reply.status == HTTPStatus.TOO_MANY_REQUESTS
    return reply.status in LATER

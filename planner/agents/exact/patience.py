"""Patience: how long a search that finds nothing better goes on."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """Ends a search some time after its last better plan, and not before a least time.

    Parameters
    ----------
    value
        Of the best plan; it only rises.
    clock
        Monotonic seconds.
    least_s, patience_s
        Seconds that the search has in any case, and those that it has after each better plan.
    """

    def __init__(
        self,
        value: Callable[[], float],
        clock: Callable[[], float],
        least_s: float,
        patience_s: float,
    ) -> None:
        self._value, self._clock = value, clock
        self._patience_s = patience_s
        self._best, self._found_at = value(), clock()
        self._least_until = self._found_at + least_s

    @property
    def is_over(self) -> bool:
        """Whether to end; asked often, for a better plan counts from when it is seen."""
        now, value = self._clock(), self._value()
        if value > self._best:
            self._best, self._found_at = value, now
        return now >= max(self._least_until, self._found_at + self._patience_s)

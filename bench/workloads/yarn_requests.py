"""One-stage requests drawn as YARN's stress test of reservation agents draws them.

Facts of that test: request i seeds Java's generator with i and draws, in this order, the arrival
within 12 h, the deadline within 24 h after it, a gang of 1-9, up to 1,000 gangs at once, and a
duration within 2 h; containers of 1 GiB and one core. Java's generator is the 48-bit linear
congruential one its documentation specifies, so the thousand requests are the same here.
"""

from __future__ import annotations

from dataclasses import dataclass

_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1
_HOUR_MS = 3_600_000


class JavaRandom:
    """The documented 48-bit generator of Java's standard library."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        return self._state >> (48 - bits)

    def below(self, bound: int) -> int:
        """Return an int in [0, bound), rejecting the uneven tail as Java does."""
        if bound & (bound - 1) == 0:
            return (bound * self._next(31)) >> 31
        while True:
            bits = self._next(31)
            value = bits % bound
            if bits - value + bound - 1 < 1 << 31:
                return value


@dataclass(frozen=True, slots=True)
class StageRequest:
    """One request: `parallel` containers in gangs of `gang` for `duration_ms`."""

    arrival_ms: int
    deadline_ms: int
    gang: int
    parallel: int
    duration_ms: int

    def to_rdl(self) -> dict[str, object]:
        """Return the request as RDL JSON; work is that of the whole stage."""
        seconds = self.duration_ms / 1000
        atom = {
            "bundle": {"cpu": 1, "memory": "1 GiB"},
            "min": self.gang,
            "max": self.parallel,
            "multiple": self.gang,
            "lease": seconds,
            "work": self.parallel * self.duration_ms / 1000,
        }
        window = {
            "start": self.arrival_ms / 1000,
            "end": self.deadline_ms / 1000,
            "of": {"atom": atom},
        }
        return {"window": window}


def stage_request(index: int) -> StageRequest:
    """Return request `index` of the stress test."""
    draw = JavaRandom(index)
    arrival = draw.below(12 * _HOUR_MS)
    deadline = arrival + draw.below(24 * _HOUR_MS)
    gang = 1 + draw.below(9)
    parallel = (draw.below(1000) + 1) * gang
    return StageRequest(arrival, deadline, gang, parallel, draw.below(2 * _HOUR_MS))

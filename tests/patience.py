"""Waiting, and time taken, in ways that a busy machine does not spoil."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

_Found = TypeVar("_Found")

#: Seconds after which what a test waits for will not come any more.
_NEVER_S = 300.0

#: How many others may want the machine as well.
_BUSY = 10


@dataclass(slots=True)
class Taken:
    """Seconds that a block took; infinite before its end."""

    seconds: float = float("inf")


def _cpu_s() -> float:
    """Return the CPU time of this process, and of children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@contextmanager
def stopwatch() -> Iterator[Taken]:
    """Time a block by the clock, or by its CPU time where others kept it waiting.

    A tenth of the clock counts at least, so that a block which sleeps past its limit is seen too.
    """
    taken = Taken()
    began, spent = time.monotonic(), _cpu_s()
    yield taken
    clock_s = time.monotonic() - began
    taken.seconds = max(min(clock_s, _cpu_s() - spent), clock_s / _BUSY)


def calls_made(call: Callable[[], object]) -> int:
    """Return how many functions a call calls, those of C too: its work, the same on any machine."""
    made = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        made += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return made


def eventually(
    look: Callable[[], _Found],
    good: Callable[[_Found], object] = bool,
    *,
    limit_s: float = _NEVER_S,
    pause_s: float = 0.05,
) -> _Found:
    """Return what `look` finds once it is good.

    Raises
    ------
    TimeoutError
        With what was found last.
    """
    until = time.monotonic() + limit_s
    while not good(found := look()):
        if time.monotonic() > until:
            raise TimeoutError(f"after {limit_s:g} s still {found!r}")
        time.sleep(pause_s)
    return found

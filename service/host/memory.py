"""Memory of a server process: what is loaded stays, and what is free goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from contextlib import suppress
from typing import Final

#: New objects between two collections of the young, and how many of those between the others.
_COLLECT_AFTER: Final = (50_000, 20, 100)

#: Of mallopt(3): the most arenas of a process; and how many a server has.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2

#: Seconds between two times at which free memory is released.
_TRIM_S: Final = 60.0


def share_arenas() -> None:
    """Let all threads take memory from two arenas of the C library, where it is glibc.

    It gives each thread one of its own, up to eight a core, and what is free in one arena serves no
    thread of another: a process of sixteen threads grows for hours, by what no one uses.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, _ARENAS)


def settle_memory() -> None:
    """Take what is loaded out of the garbage collector's sight, and let it run less often.

    A collection looks at every object there is: a Plan of 100,000 reservations and a batch of
    thousands of requests make it pause for a tenth of a second, again and again. Nearly everything
    here is freed by reference counts at once; what is left are few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.enable()


def keep_memory_small() -> None:
    """Give free memory back to the system once a minute from now on, where the C library is glibc.

    A commit, a snapshot and a long answer leave holes between what stays: pages in them are
    no one's, and the library keeps them for itself.
    """
    with suppress(OSError, AttributeError):
        trim = ctypes.CDLL("libc.so.6").malloc_trim
        threading.Thread(target=_trim, args=(trim,), name="agenda-memory", daemon=True).start()


def _trim(trim: ctypes._NamedFuncPointer) -> None:
    while True:
        time.sleep(_TRIM_S)
        trim(0)

"""Memory of a server process: tune the garbage collector, and return free memory to the system."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from contextlib import suppress
from typing import Final

#: Thresholds of the garbage collector's generations.
_COLLECT_AFTER: Final = (50_000, 20, 100)

#: Parameter of mallopt(3) for the most arenas of a process, and its value for a server.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2

#: Seconds between two releases of free memory.
_TRIM_S: Final = 60.0


def share_arenas() -> None:
    """Let all threads allocate from two arenas of the C library, if it is glibc.

    By default each thread has its own arena, up to eight per core, and free memory in one arena
    cannot be used by threads of another: a process with sixteen threads would grow for hours by
    unused memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, _ARENAS)


def settle_memory() -> None:
    """Exclude loaded objects from garbage collection, and run it less often.

    A collection visits every object: with a Plan of 100,000 reservations and a batch of thousands
    of requests it would pause repeatedly for a tenth of a second. Nearly everything here is
    freed by reference counts immediately; there are few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.enable()


def keep_memory_small() -> None:
    """Return free memory to the system once a minute from now on, if the C library is glibc.

    Commits, snapshots and long answers leave holes between live objects, whose pages the library
    would otherwise keep.
    """
    with suppress(OSError, AttributeError):
        trim = ctypes.CDLL("libc.so.6").malloc_trim
        threading.Thread(target=_trim, args=(trim,), name="agenda-memory", daemon=True).start()


def _trim(trim: ctypes._NamedFuncPointer) -> None:
    while True:
        time.sleep(_TRIM_S)
        trim(0)

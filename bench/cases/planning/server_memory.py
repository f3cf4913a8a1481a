"""The garbage collector as a server sets it, for what is timed in a bench's own process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from service.server import settle_memory


@contextmanager
def as_served() -> Iterator[None]:
    """Time something under the settings that a server takes once its Plan is loaded."""
    before = gc.get_threshold()
    settle_memory()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)

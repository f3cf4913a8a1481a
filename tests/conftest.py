"""Settings of every test."""

from __future__ import annotations

import gc

from hypothesis import settings

# A deadline an example would measure how busy the machine is; benches measure time.
settings.register_profile("agenda", deadline=None)
settings.load_profile("agenda")


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over what is collected, which stays to the end."""
    gc.collect()
    gc.freeze()

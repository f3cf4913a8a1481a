"""Settings of every test."""

from __future__ import annotations

from hypothesis import settings

# A deadline an example would measure how busy the machine is; benches measure time.
settings.register_profile("agenda", deadline=None)
settings.load_profile("agenda")

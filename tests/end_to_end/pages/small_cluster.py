"""A cluster so small that a few requests fill it."""

from __future__ import annotations

from typing import Final

#: Ten machines of one core for four hours, without queues.
TEN_MACHINES: Final = """
step = "60s"
horizon = "4h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1, memory = "4 GiB" }
"""

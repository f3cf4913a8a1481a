"""Compiled core/elastic allocation: the claims in service and the grants of each.

Identical components are counted, never listed; one pass over a thousand rows in service takes a few
microseconds.

This module exports what the dispatcher needs. Modules import only from earlier ones, in this order:
`compiled`, `arrays`; `lines`, the queues and their order; `service`; `entries`.
"""

from dispatch.pool.kernels.arrays import (
    ASKED,
    GRANTED,
    LATER,
    LINES,
    SERVING,
    URGENT,
    WAITING,
    ClaimArrays,
    PoolArrays,
    PoolRules,
)
from dispatch.pool.kernels.entries import adopt, arrive, depart, join, requeue, settle, withdraw

__all__ = [
    "ASKED",
    "GRANTED",
    "LATER",
    "LINES",
    "SERVING",
    "URGENT",
    "WAITING",
    "ClaimArrays",
    "PoolArrays",
    "PoolRules",
    "adopt",
    "arrive",
    "depart",
    "join",
    "requeue",
    "settle",
    "withdraw",
]

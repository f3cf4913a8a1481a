"""Compiled core/elastic allocation: which claims are in service and what each is granted.

Identical components are counted, never listed; one pass over those in service costs a few
microseconds for a thousand of them.

What the dispatcher needs stands here; files import only from files before them: `compiled`,
`arrays`; the `lines` of rows and their order; `service`; `entries`.
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

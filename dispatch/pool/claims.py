"""Claims on the core/elastic pool, and the grants that answer them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf


class GrantRule(Enum):
    """How elastic components are granted."""

    FLEXIBLE = 0  # grants are recomputed at every event: elastic parts may shrink
    GROW_ONLY = 1  # grants only grow; admission counts them
    MALLEABLE = 2  # each takes all it can when it starts; admission counts grants


@dataclass(frozen=True, slots=True)
class ClaimPart:
    """`count` identical components and the amounts of one, in the order of the pool's resources."""

    count: int
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Request of one execution to the pool, and the keys of its order.

    Attributes
    ----------
    name
        Unique in the pool.
    core, elastic
        Its components in file order; at least one is core, unless it only joins a later tier.
    submitted_s
        Time of submission.
    run_s
        Run time with everything granted; infinite if unknown.
    priority
        The higher goes first.
    tenant
        Its owner, for dominant shares.
    tier
        0 is the first. Elastic components of later tiers are granted from the rest of the first,
        are revoked when that shrinks, and keep no claim from service.
    turn
        Order of grants in a later tier: the keys before and after the time of submission.
    """

    name: str
    core: tuple[ClaimPart, ...]
    elastic: tuple[ClaimPart, ...] = ()
    submitted_s: float = 0.0
    run_s: float = inf
    priority: int = 0
    tenant: str = ""
    tier: int = 0
    turn: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Grant:
    """Change that an event made for one execution in service.

    Attributes
    ----------
    name
        The execution.
    started
        Whether its cores start now.
    granted
        Number of present components of each elastic part, in file order.
    """

    name: str
    started: bool
    granted: tuple[int, ...]

"""Claims on the core/elastic pool, the grants that answer them, and the interface between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol


class GrantRule(Enum):
    """How elastic components are granted."""

    FLEXIBLE = 0  # grants are made anew at every event: elastic may shrink
    GROW_ONLY = 1  # grants only grow; admission counts them
    MALLEABLE = 2  # each takes all it can when it starts; admission counts grants


@dataclass(frozen=True, slots=True)
class ClaimPart:
    """`count` identical components and what each asks for, in the order of the pool's resources."""

    count: int
    amounts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """How much one execution asks of the pool, and where it stands in line.

    Attributes
    ----------
    name
        Unique in the pool.
    core, elastic
        Its components in file order; at least one is core.
    submitted_s
        When it was submitted.
    run_s
        How long it runs with everything granted; infinite where that is not known.
    priority
        The higher goes first.
    tenant
        Its owner, for dominant shares.
    """

    name: str
    core: tuple[ClaimPart, ...]
    elastic: tuple[ClaimPart, ...] = ()
    submitted_s: float = 0.0
    run_s: float = inf
    priority: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """What an event changed for one execution in service.

    Attributes
    ----------
    name
        The execution.
    started
        Whether its cores start now.
    granted
        How many components of each elastic part it holds now, in file order.
    """

    name: str
    started: bool
    granted: tuple[int, ...]


class Scheduler(Protocol):
    """The one interface of the core/elastic algorithm and of the baselines."""

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Take a new execution in."""
        ...

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Take an execution out, in service or waiting."""
        ...

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """Set how much the pool has of each resource."""
        ...

    def waiting(self) -> tuple[str, ...]:
        """Return the names of those that wait; those that may preempt come first."""
        ...

    def serving(self) -> tuple[str, ...]:
        """Return the names of those in service, in the order of grants."""
        ...

    def granted(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution holds."""
        ...

    def free(self) -> dict[str, int]:
        """Return what nobody in service holds; negative where cores exceed a smaller total."""
        ...

    def can_ever_fit(self, claim: Claim) -> bool:
        """Return whether a claim could start if nothing else were in service."""
        ...

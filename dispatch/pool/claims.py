"""What the core/elastic algorithm is asked and what it answers, and its one interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Protocol


class GrantRule(Enum):
    """How elastic components are granted; `baselines` says what each is for."""

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
    """What one execution asks of the pool.

    Attributes
    ----------
    name
        Unique among those in the pool.
    core, elastic
        In file order; at least one core component.
    submitted_s, run_s
        When it came, and how long it runs with everything granted (infinite: nobody knows).
    priority, tenant
        Higher goes first; whose it is.
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
        How many of each elastic part it now holds, in file order.
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
        """Change what there is."""
        ...

    def waiting(self) -> tuple[str, ...]:
        """Who waits; those that may preempt first."""
        ...

    def serving(self) -> tuple[str, ...]:
        """Who is in service, in the order of grants."""
        ...

    def granted(self, name: str) -> tuple[int, ...]:
        """How many of each of its elastic parts an execution holds."""
        ...

    def free(self) -> dict[str, int]:
        """What nobody in service holds; negative where cores exceed a total that shrank."""
        ...

    def can_ever_fit(self, claim: Claim) -> bool:
        """Whether a claim could start if nothing else were in service."""
        ...

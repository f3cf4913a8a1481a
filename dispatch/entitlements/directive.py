"""Directive: what the Plan says about now, frozen, for one or many cycles of the dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dispatch.entitlements.slots import ActiveSlot, SlotsAhead
from lp.lotes.dispatch_table import DispatchTable
from rdl.resources import Resources


class Standing(Enum):
    """Where a reservation is at an instant, as the dispatcher sees it."""

    UNKNOWN = "unknown"  # the Plan has none of this id
    LATER = "later"  # it holds nothing now and something from later on
    ACTIVE = "active"  # it is entitled to something now
    OVER = "over"  # it holds nothing any more


@dataclass(frozen=True, slots=True)
class AtomShare:
    """What one atom is entitled to at an instant.

    Attributes
    ----------
    path
        Source path with the number of its occurrence.
    bundles
        How many bundles, more than zero.
    bundle, label
        What one is, and the machines it is for.
    slots
        Where its bundles are: on machines, or on none if only totals are promised.
    """

    path: str
    bundles: int
    bundle: Resources
    label: str | None = None
    slots: tuple[ActiveSlot, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """All of its bundles together, canonical amounts by resource."""
        return {name: amount * self.bundles for name, amount in self.bundle.items()}


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What one reservation is entitled to at an instant (E of dispatch.md).

    Attributes
    ----------
    reservation, tenant
        Id of the reservation, and its owner.
    number
        Place in the order of acceptance.
    atoms
        Those that hold something now; capacity is the allocation less what was released.
    """

    reservation: str
    tenant: str
    number: int
    atoms: tuple[AtomShare, ...]

    @property
    def is_placed(self) -> bool:
        """Whether its bundles have machines, so that it covers what runs there alone."""
        return any(slot.machine is not None for atom in self.atoms for slot in atom.slots)

    def total(self) -> dict[str, int]:
        """E as canonical amounts by resource."""
        found: dict[str, int] = {}
        for atom in self.atoms:
            for name, amount in atom.amounts.items():
                found[name] = found.get(name, 0) + amount
        return found


@dataclass(frozen=True, slots=True)
class Standings:
    """Where every reservation of one version of the Plan is at one step.

    Attributes
    ----------
    number_of
        Number of a reservation in the order of acceptance, or None; numbers of one
        table never change.
    finish
        First step past all that each holds, int32[n], read-only.
    step
        The present step.
    active
        Ids that are entitled to something now.
    """

    number_of: Callable[[str], int | None]
    finish: NDArray[np.int32]
    step: int
    active: frozenset[str]

    def of(self, reservation: str) -> Standing:
        """Return where a reservation stands."""
        if reservation in self.active:
            return Standing.ACTIVE
        number = self.number_of(reservation)
        if number is None or number >= len(self.finish):
            return Standing.UNKNOWN
        return Standing.LATER if self.finish[number] > self.step else Standing.OVER


@dataclass(frozen=True, slots=True)
class Directive:
    """What a cycle needs to know of the Plan, and all it may know.

    Attributes
    ----------
    plan_version, at_ms
        Version of the Plan, and the instant in ms from the origin.
    entitlements
        Of the reservations active now, in order of acceptance, with what is anticipated because
        components start late.
    planned
        The same as the Plan holds it, without anticipation: promises are measured by it.
    soon
        The same at `at_ms` plus the grace that stops are given: capacity for what grows till then
        is made ahead.
    standings
        Where the reservations stand that have no entitlement.
    ahead
        When the slots of the Plan begin on each machine; None if it has none.
    away, away_soon
        Machines that the Plan's outages take, now and at the instant of `soon`.
    dispatch_table, table_version
        Targets of the LoTES placement, or None; versions count up from 1.
    """

    plan_version: int
    at_ms: int
    entitlements: tuple[Entitlement, ...]
    planned: tuple[Entitlement, ...]
    soon: tuple[Entitlement, ...]
    standings: Standings
    away: frozenset[str] = frozenset()
    away_soon: frozenset[str] = frozenset()
    dispatch_table: DispatchTable | None = None
    table_version: int = 0
    ahead: SlotsAhead | None = None

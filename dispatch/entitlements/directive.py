"""Directive: a frozen view of the Plan at one instant, for cycles of the dispatcher."""

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
    """State of a reservation at an instant, for the dispatcher."""

    UNKNOWN = "unknown"  # the Plan has none of this id
    LATER = "later"  # it has no allocation now but one later
    ACTIVE = "active"  # it is entitled to something now
    OVER = "over"  # it has no allocation any more


@dataclass(frozen=True, slots=True)
class AtomShare:
    """Entitlement of one atom at an instant.

    Attributes
    ----------
    path
        Source path with the number of its occurrence.
    bundles
        Number of bundles, more than zero.
    bundle, label
        Amounts of one bundle, and the label of the machines it is for.
    slots
        Slots of its bundles: on machines, or on none for a pooled promise.
    """

    path: str
    bundles: int
    bundle: Resources
    label: str | None = None
    slots: tuple[ActiveSlot, ...] = ()

    @property
    def amounts(self) -> dict[str, int]:
        """Total of all its bundles, canonical amounts by resource."""
        return {name: amount * self.bundles for name, amount in self.bundle.items()}


@dataclass(frozen=True, slots=True)
class Entitlement:
    """Entitlement of one reservation at an instant (E of dispatch.md).

    Attributes
    ----------
    reservation, tenant
        Id of the reservation, and its owner.
    number
        Place in the order of acceptance.
    atoms
        Atoms with an allocation now; capacity is the allocation minus what was released.
    """

    reservation: str
    tenant: str
    number: int
    atoms: tuple[AtomShare, ...]

    @property
    def is_placed(self) -> bool:
        """Whether its bundles have machines, so that it covers only components running there."""
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
    """State of every reservation of one version of the Plan at one step.

    Attributes
    ----------
    number_of
        Number of a reservation in the order of acceptance, or None; numbers of one
        table never change.
    finish
        First step after each reservation's allocation, int32[n], read-only.
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
        """Return the state of a reservation."""
        if reservation in self.active:
            return Standing.ACTIVE
        number = self.number_of(reservation)
        if number is None or number >= len(self.finish):
            return Standing.UNKNOWN
        return Standing.LATER if self.finish[number] > self.step else Standing.OVER


@dataclass(frozen=True, slots=True)
class Directive:
    """Everything that a cycle reads of the Plan.

    Attributes
    ----------
    plan_version, at_ms
        Version of the Plan, and the instant in ms from the origin.
    entitlements
        Entitlements of the reservations active now, in order of acceptance, including what is
        anticipated because components start late.
    planned
        Entitlements in the Plan without anticipation: promises are measured by them.
    soon
        Entitlements at `at_ms` plus the grace period of stops: capacity for those that grow until
        then is freed ahead.
    standings
        States of the reservations without an entitlement.
    ahead
        Upcoming slots of the Plan on each machine; None if it has none.
    away, away_soon
        Machines in the Plan's outages, now and at the instant of `soon`.
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

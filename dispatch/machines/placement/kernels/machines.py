"""Machines, their free capacity, and how a policy chooses among them."""

# Mypy does not know the types of array elements.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dispatch.machines.placement.kernels.arrays import NONE, TOLERANCE, Floats, Ints
from dispatch.machines.placement.kernels.compiled import inline
from dispatch.machines.placement.kernels.forest import MaximaForest, forest_next, forest_set

# Columns of `Fleet.whole`; CLOSED machines take no new jobs: drained, or with jobs waiting there.
RUNNING, CONFIGURATION, CLOSED, BIN = range(4)
# First column of free capacity in `Fleet.real`, after the columns above.
LEFT = 2


class Fleet(NamedTuple):
    """Machines and their free capacity.

    A machine is one row of one or two cache lines, accessible as integers and as floats: the
    columns named above, the free amount of each resource, and the running jobs by class.
    """

    capacity: Floats  # (J, L) of each machine of a configuration
    whole: Ints  # (n, 2 W)
    real: Floats  # (n, W), the same memory
    by_class: int  # first column of jobs by class in `whole`
    room: MaximaForest  # C = L + 1: free amounts, and their smallest fraction of the capacity


class PlacementRules(NamedTuple):
    """The policy that chooses machines, and its settings."""

    policy: int  # index in POLICIES
    speed: Floats  # (J, K) of each configuration for each class; 0 forbids the pair
    time_weight: float  # Tetris: weight of the run time in hours
    memory: int  # resource that `spread` compares


@inline
def fits(fleet: Fleet, machine: int, request: Floats) -> bool:
    """Whether a machine is open and has capacity for a request."""
    # Leaves of closed machines have no capacity, so a check reads only one row of leaves.
    for r in range(request.size):
        if fleet.room.leaf[machine, r] + TOLERANCE < request[r]:
            return False
    return True


@inline
def holds_empty(fleet: Fleet, group: int, request: Floats) -> bool:
    """Whether an empty machine of the configuration has capacity for a request."""
    if fleet.room.level_size[group, 0] == 0:
        return False
    for r in range(request.size):
        if fleet.capacity[group, r] + TOLERANCE < request[r]:
            return False
    return True


@inline
def offer(fleet: Fleet, machine: int) -> None:
    """Update the forest with the free capacity of a machine; a closed machine has none."""
    size = fleet.capacity.shape[1]
    group = fleet.whole[machine, CONFIGURATION]
    values = fleet.room.values
    smallest = np.inf
    for r in range(size):
        left = fleet.real[machine, LEFT + r]
        values[r] = left
        if fleet.capacity[group, r] > 0.0:
            smallest = min(smallest, left / fleet.capacity[group, r])
    values[size] = smallest
    if fleet.whole[machine, CLOSED] != 0:
        for c in range(size + 1):
            values[c] = -np.inf
    forest_set(fleet.room, group, machine - fleet.room.base[group])


@inline
def want_room(fleet: Fleet, group: int, request: Floats) -> None:
    """Set the forest's search target to a request, with its smallest fraction last."""
    size = request.size
    wanted = fleet.room.wanted
    smallest = np.inf
    for r in range(size):
        wanted[r] = request[r]
        if fleet.capacity[group, r] > 0.0:
            smallest = min(smallest, request[r] / fleet.capacity[group, r])
    wanted[size] = min(smallest, 1.0)


@inline
def first_fit_in(fleet: Fleet, group: int, request: Floats) -> int:
    """Return the lowest machine of a configuration that fits, or NONE."""
    if fleet.room.level_size[group, 0] == 0:
        return NONE
    want_room(fleet, group, request)
    place = forest_next(fleet.room, group, 0)
    return NONE if place == NONE else fleet.room.base[group] + place


@inline
def occupy(fleet: Fleet, machine: int, request: Floats) -> None:
    """Subtract a request from the free capacity of a machine."""
    for r in range(request.size):
        fleet.real[machine, LEFT + r] -= request[r]
    fleet.whole[machine, RUNNING] += 1
    offer(fleet, machine)


@inline
def release(fleet: Fleet, machine: int, request: Floats) -> None:
    """Release a request; reset an empty machine, so that rounding does not accumulate."""
    fleet.whole[machine, RUNNING] -= 1
    group = fleet.whole[machine, CONFIGURATION]
    for r in range(request.size):
        if fleet.whole[machine, RUNNING] == 0:
            fleet.real[machine, LEFT + r] = fleet.capacity[group, r]
        else:
            fleet.real[machine, LEFT + r] += request[r]
    offer(fleet, machine)

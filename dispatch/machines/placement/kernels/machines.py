"""Machines, what is left of them, and how a policy chooses among them."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dispatch.machines.placement.kernels.arrays import NONE, TOLERANCE, Floats, Ints
from dispatch.machines.placement.kernels.compiled import inline
from dispatch.machines.placement.kernels.forest import MaximaForest, forest_next, forest_set

# Columns of `Fleet.whole`; CLOSED machines take no new jobs: drained, or with jobs waiting there.
RUNNING, CONFIGURATION, CLOSED, BIN = range(4)
# First column of what is left in `Fleet.real`, behind the columns above.
LEFT = 2


class Fleet(NamedTuple):
    """Machines and what is left of them.

    A machine is one row, which lies in one or two lines of the cache, seen as integers and as
    floats: the columns named above, what is left of each resource, and jobs running by class.
    """

    capacity: Floats  # (J, L) of each machine of a configuration
    whole: Ints  # (n, 2 W)
    real: Floats  # (n, W), the same memory
    by_class: int  # first column of jobs by class in `whole`
    room: MaximaForest  # C = L + 1: what is left, and its smallest part of the capacity


class PlacementRules(NamedTuple):
    """How machines are chosen: the policy and its settings."""

    policy: int  # place in POLICIES
    speed: Floats  # (J, K) of each configuration for each class; 0 forbids the pair
    time_weight: float  # Tetris: weight of the hours
    memory: int  # resource that `spread` compares


@inline
def fits(fleet: Fleet, machine: int, request: Floats) -> bool:
    """Whether a machine is open and has capacity for a request."""
    # Leaves of closed machines hold nothing; one row of them is all that a look costs.
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
    """Tell the forest what is left of a machine; a closed one offers nothing."""
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
    """Look for a request: its smallest part of a machine comes last."""
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
    """Lowest machine of a configuration that fits, or NONE."""
    if fleet.room.level_size[group, 0] == 0:
        return NONE
    want_room(fleet, group, request)
    place = forest_next(fleet.room, group, 0)
    return NONE if place == NONE else fleet.room.base[group] + place


@inline
def occupy(fleet: Fleet, machine: int, request: Floats) -> None:
    """Take a request from a machine."""
    for r in range(request.size):
        fleet.real[machine, LEFT + r] -= request[r]
    fleet.whole[machine, RUNNING] += 1
    offer(fleet, machine)


@inline
def release(fleet: Fleet, machine: int, request: Floats) -> None:
    """Give a request back; an empty machine is whole again, so that rounding does not add up."""
    fleet.whole[machine, RUNNING] -= 1
    group = fleet.whole[machine, CONFIGURATION]
    for r in range(request.size):
        if fleet.whole[machine, RUNNING] == 0:
            fleet.real[machine, LEFT + r] = fleet.capacity[group, r]
        else:
            fleet.real[machine, LEFT + r] += request[r]
    offer(fleet, machine)

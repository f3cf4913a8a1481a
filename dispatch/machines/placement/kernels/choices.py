"""The choices of the policies other than LoTES, and one entry point for all policies."""

# Mypy does not know the types of array elements.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.kernels.arrays import (
    BEST_FIT,
    GREEDY,
    LOTES,
    NONE,
    TETRIS,
    TOLERANCE,
    Floats,
)
from dispatch.machines.placement.kernels.compiled import entry, inline, inner
from dispatch.machines.placement.kernels.forest import FAN, forest_next
from dispatch.machines.placement.kernels.machines import (
    CLOSED,
    LEFT,
    RUNNING,
    Fleet,
    PlacementRules,
    first_fit_in,
    occupy,
    offer,
    release,
    want_room,
)
from dispatch.machines.placement.kernels.scores import Targets, choose_lotes, count_job


@inline
def choose_first_fit(fleet: Fleet, rules: PlacementRules, k: int, request: Floats) -> int:
    """Return the lowest machine that fits."""
    for group in range(fleet.room.base.size):
        if rules.speed[group, k] <= 0.0:
            continue
        machine = first_fit_in(fleet, group, request)
        if machine != NONE:
            return machine
    return NONE


@inner
def choose_tetris(
    fleet: Fleet, rules: PlacementRules, k: int, request: Floats, hours: float
) -> int:
    """Return the fitting machine with the highest r . left - p (r . 1), or NONE."""
    best, highest = NONE, -np.inf
    work = 0.0
    for r in range(request.size):
        work += request[r]
    work *= rules.time_weight * hours
    forest = fleet.room
    for group in range(forest.base.size):
        if forest.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        cost = work / rules.speed[group, k]
        level, place = forest.top[group], 0
        while place < forest.level_size[group, level]:
            passes, reach = True, 0.0
            if level == 0:
                row = forest.base[group] + place
            else:
                row = forest.level_base[group, level] + place
            for r in range(request.size):
                value = forest.leaf[row, r] if level == 0 else forest.node[row, r]
                if value + TOLERANCE < request[r]:
                    passes = False
                    break
                reach += request[r] * value
            reach -= cost
            if passes and reach > highest:
                if level > 0:
                    level -= 1
                    place *= FAN
                    continue
                best, highest = row, reach
            place += 1
            while place % FAN == 0 and level < forest.top[group]:
                level += 1
                place //= FAN
    return best


@inner
def choose_best_fit(fleet: Fleet, rules: PlacementRules, k: int, request: Floats) -> int:
    """Return the machine with the least relative capacity left over, summed; ties to the lowest."""
    best, least = NONE, np.inf
    for group in range(fleet.room.base.size):
        if fleet.room.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        want_room(fleet, group, request)
        place = forest_next(fleet.room, group, 0)
        while place != NONE:
            machine = fleet.room.base[group] + place
            over = 0.0
            for r in range(request.size):
                if fleet.capacity[group, r] > 0.0:
                    left = fleet.real[machine, LEFT + r]
                    over += (left - request[r]) / fleet.capacity[group, r]
            if over < least:
                best, least = machine, over
            place = forest_next(fleet.room, group, place + 1)
    return best


@inner
def choose_spread(fleet: Fleet, rules: PlacementRules, k: int, request: Floats) -> int:
    """Return the machine with the fewest jobs, then most free memory; ties to the lowest."""
    best, memory = NONE, LEFT + rules.memory
    for group in range(fleet.room.base.size):
        if fleet.room.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        want_room(fleet, group, request)
        place = forest_next(fleet.room, group, 0)
        while place != NONE:
            machine = fleet.room.base[group] + place
            if best == NONE:
                best = machine
            fewer = fleet.whole[best, RUNNING] - fleet.whole[machine, RUNNING]
            roomier = fleet.real[machine, memory] > fleet.real[best, memory]
            if fewer > 0 or (fewer == 0 and roomier):
                best = machine
            place = forest_next(fleet.room, group, place + 1)
    return best


@inline
def choose(
    fleet: Fleet,
    targets: Targets,
    rules: PlacementRules,
    k: int,
    request: Floats,
    hours: float,
    draw: float,
) -> int:
    """Return the machine that the policy chooses for an arriving job, or NONE."""
    if rules.policy == LOTES:
        return choose_lotes(fleet, targets, rules, k, request, draw)
    if rules.policy == GREEDY:
        return choose_first_fit(fleet, rules, k, request)
    if rules.policy == TETRIS:
        return choose_tetris(fleet, rules, k, request, hours)
    if rules.policy == BEST_FIT:
        return choose_best_fit(fleet, rules, k, request)
    return choose_spread(fleet, rules, k, request)


@entry
def place_job(
    fleet: Fleet,
    targets: Targets,
    rules: PlacementRules,
    k: int,
    request: Floats,
    hours: float,
    draw: float,
) -> int:
    """Call `choose` from outside the event loop."""
    return choose(fleet, targets, rules, k, request, hours, draw)


@entry
def place_job_among(
    fleet: Fleet,
    targets: Targets,
    rules: PlacementRules,
    k: int,
    request: Floats,
    hours: float,
    draw: float,
    allowed: NDArray[np.bool_],
    shut: NDArray[np.bool_],
) -> int:
    """Call `choose` among the allowed machines, with the others closed temporarily."""
    for machine in range(allowed.size):
        shut[machine] = not allowed[machine] and fleet.whole[machine, CLOSED] == 0
        if shut[machine]:
            fleet.whole[machine, CLOSED] = 1
            offer(fleet, machine)
    found = choose(fleet, targets, rules, k, request, hours, draw)
    for machine in range(allowed.size):
        if shut[machine]:
            fleet.whole[machine, CLOSED] = 0
            offer(fleet, machine)
    return found


@entry
def change_machine(
    fleet: Fleet,
    targets: Targets,
    rules: PlacementRules,
    machine: int,
    k: int,
    request: Floats,
    change: int,
) -> None:
    """Account for a job of class k that started (+1) or ended (-1) on a machine."""
    if change > 0:
        occupy(fleet, machine, request)
    else:
        release(fleet, machine, request)
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, k, change)


@entry
def open_machine(fleet: Fleet, machine: int, is_open: bool) -> None:
    """Open or close a machine for new jobs."""
    fleet.whole[machine, CLOSED] = 0 if is_open else 1
    offer(fleet, machine)

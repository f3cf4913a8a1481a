"""Why a request is refused, in a sentence for people: amounts with their units, readable times."""

from __future__ import annotations

from planner.placement import Binding
from rdl.durations import rfc3339_text
from rdl.resources import CPU, MEMORY, format_amount
from rdl.time_grid import TimeGrid, duration_text

_HOUR_MS = 3_600_000
_MIB_IN_GIB = 1024


def subject_of(binding: Binding) -> str:
    """Return how every sentence about an atom that found no place begins, with its name if any."""
    if binding.name is not None:
        return f"no place for {binding.name}"
    return f"no place for atom {binding.path}" if binding.path else "no place for the request"


def time_text(step: int, grid: TimeGrid) -> str:
    """Return a step as people say it: an instant where the plan has an origin, else a duration.

    ``at 2026-01-05T09:00:00Z``, or ``at 1h30m`` from the origin.
    """
    ms = grid.ms(step)
    if grid.origin is not None:
        return f"at {rfc3339_text(grid.instant_at(ms))}"
    return f"at {duration_text(ms)}" if ms >= 0 else f"{duration_text(-ms)} before the origin"


def free_text(resource: str, free: int) -> str:
    """Return what is left: ``2 GiB memory is left``, ``no cpu is left``, and what is missing."""
    if free > 0:
        return f"{format_amount(resource, free)} is left"
    missing = f" ({format_amount(resource, -free)} too much is taken)" if free < 0 else ""
    return f"no {resource} is left{missing}"


def area_text(resource: str, amount_steps: int, step_ms: int) -> str:
    """Return an amount held over time: ``12.5 cpu-hours``, ``3 GiB-hours of memory``."""
    hours = amount_steps * step_ms / _HOUR_MS
    if resource == CPU:
        return f"{_number(hours / 1000)} cpu-hours"
    if resource == MEMORY:
        return f"{_number(hours / _MIB_IN_GIB)} GiB-hours of memory"
    return f"{_number(hours)} {resource}-hours"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def least_sentence(grid: TimeGrid, binding: Binding) -> str:
    """Return the sentence of a refusal for want of room at one step."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    head, at = subject_of(binding), time_text(binding.at, grid)
    if binding.resource is None:
        return f"{head}: machines hold {binding.free} of {binding.needed} bundles {at}"
    resource = binding.resource
    limit = f" within policy {binding.policy}" if binding.policy else ""
    return (
        f"{head}: {at}, where least is free, {free_text(resource, binding.free)}{limit}; "
        f"at least {format_amount(resource, binding.needed)} is needed at once"
    )


def machines_sentence(grid: TimeGrid, binding: Binding, until: int) -> str:
    """Return the sentence of a refusal where the pool has room and machines have not.

    Parameters
    ----------
    until
        Step at which the bundles that found no machine would end.
    """
    assert binding.at is not None
    start, end = (time_text(step, grid).removeprefix("at ") for step in (binding.at, until))
    free = "none" if not binding.free else f"only {binding.free}"
    return (
        f"{subject_of(binding)} on machines: the pool has room, but from {start} to {end} "
        f"machines hold {free} of {binding.needed} bundles"
    )


def room_sentence(grid: TimeGrid, binding: Binding) -> str:
    """Return the sentence of a refusal where a height fits for a while: lease, work or shape."""
    assert binding.needed is not None
    assert binding.free is not None
    head = subject_of(binding)
    needed, free = duration_text(binding.needed), duration_text(binding.free)
    of = f" within policy {binding.policy}" if binding.policy else ""
    scarce = binding.resource or "whole machines"
    where = "" if binding.at is None else f" {time_text(binding.at, grid)}"
    if binding.kind == "lease":
        cut = f", cut short{where} for want of {scarce}{of}" if where else ""
        return (
            f"{head}: room for its least height lasts {free} at most{cut}; a lease takes {needed}"
        )
    tight = f" (least {scarce} is free{where}{of})" if where else ""
    if binding.kind == "work":
        return f"{head}: its window has room for {free} of work{tight}; {needed} is asked"
    return (
        f"{head}: no leases were found that make up its {needed} of work in the room for {free} "
        f"that its window has{tight}"
    )


def average_sentence(grid: TimeGrid, binding: Binding) -> str:
    """Return the sentence of a refusal by a policy on averages over a sliding window."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    resource = binding.resource or ""
    left = area_text(resource, max(0, binding.free), grid.step_ms)
    return (
        f"{subject_of(binding)}: policy {binding.policy} leaves {left} in its window that "
        f"starts {time_text(binding.at, grid)}; "
        f"all of the work takes {area_text(resource, binding.needed, grid.step_ms)}"
    )

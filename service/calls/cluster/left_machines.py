"""Outages that work has left machines for: they say why it goes on elsewhere.

An outage that is taken back in the step it began in would leave no trace, and a bundle would have
changed its machine for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from planner.cluster.cluster import Cluster, Outage
from planner.plan.plan import Plan


def traces(plan: Plan, wanted: Cluster, step: int) -> tuple[Outage, ...]:
    """Return what another description must keep of outages that began at a step.

    Those of the present description that it does not name, whose machines it has and that work has
    left: they last until the end of the step.

    Parameters
    ----------
    step
        The present one.
    """
    step_ms = plan.grid.step_ms
    start, end = step * step_ms, (step + 1) * step_ms
    found: list[Outage] = []
    for outage in plan.cluster.outages:
        if start <= outage.start_ms < end <= outage.end_ms and was_left(plan, outage, step):
            kept = replace(outage, indices=_not_out(outage, wanted, start))
            if kept.indices:
                found.append(replace(kept, end_ms=end))
    return tuple(found)


def _not_out(outage: Outage, wanted: Cluster, at_ms: int) -> tuple[int, ...]:
    """Return the machines of an outage that a description has and that are there at a time."""
    counts = {group.name: group.count for group in wanted.machines}
    out = {
        index
        for one in wanted.outages
        if one.machines == outage.machines
        and one.start_ms <= outage.start_ms
        and at_ms < one.end_ms
        for index in one.indices
    }
    there = range(counts.get(outage.machines, 0))
    return tuple(index for index in outage.indices if index in there and index not in out)


def was_left(plan: Plan, outage: Outage, step: int) -> bool:
    """Return whether some slot that began before ends at a step on a machine of an outage."""
    names = {name: number for number, name in enumerate(plan.cluster.machine_names)}
    machines = [names.get(f"{outage.machines}-{index}") for index in outage.indices]
    slots, _ = plan.table.slots_after(step - 1)
    ends = slots[(slots[:, 1] == step) & (slots[:, 0] < step), 3].tolist()
    return not set(machines).isdisjoint(ends)

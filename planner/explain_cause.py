"""What lies behind a shortage: machines that are away, or a cluster that is too small."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planner.cluster.cluster import (
    RESERVED,
    SPARE,
    Cluster,
    MachineGroup,
    Outage,
    bundles_per_machine,
)
from planner.placement import Binding
from rdl.expressions import Atom, Expression, atom_at
from rdl.local_time import time_words, zone_named
from rdl.resources import format_amount
from rdl.time_grid import TimeGrid

_MOST_SHOWN: Final = 2

#: Outages up to which a refusal looks for its own among them.
_MOST_OUTAGES: Final = 500


def cause_text(
    binding: Binding | None, expression: Expression, cluster: Cluster, grid: TimeGrid
) -> str:
    """Return the cause of a shortage as the end of a sentence, or nothing where none is known."""
    if binding is None or binding.policy is not None or binding.kind in ("gap", "promise"):
        return ""
    atom = atom_at(expression, binding.path)
    is_amount = binding.kind not in ("lease", "work", "shape")
    needed, free = binding.needed or 0, binding.free or 0
    if is_amount and needed > (whole := _capacity(binding, atom, cluster.machines)):
        if binding.resource is None:
            return f"; all machines of the cluster together hold {whole}"
        return f"; the whole cluster has {format_amount(binding.resource, whole)}"
    if binding.at is None or len(cluster.outages) > _MOST_OUTAGES:
        return ""
    away = [one for one in cluster.outages if _covers(one, grid.ms(binding.at), cluster.step_ms)]
    groups = {group.name: group for group in cluster.machines}
    absent = [(one, groups[one.machines]) for one in away if one.machines in groups]
    if is_amount:
        gone = sum(_of_machines(binding, atom, group, len(one.indices)) for one, group in absent)
        if free + gone < needed:
            return ""
    zone = zone_named(expression)
    said = [_away(one, grid, zone) for one, group in absent if _serves(group, atom)]
    return "".join(f"; {words}" for words in said[:_MOST_SHOWN])


def _away(outage: Outage, grid: TimeGrid, zone: str | None) -> str:
    count = len(outage.indices)
    if count > 1:
        machines = f"{count} machines of {outage.machines} are"
    else:
        machines = f"1 machine of {outage.machines} is"
    until = time_words(outage.end_ms, grid, zone)
    why = f": {outage.reason}" if outage.reason else ""
    return f"{machines} away ({outage.kind} {outage.id}{why}) until {until}"


def _covers(outage: Outage, at_ms: int, step_ms: int) -> bool:
    hidden = outage.kind in (RESERVED, SPARE)
    return not hidden and outage.start_ms < at_ms + step_ms and outage.end_ms > at_ms


def _capacity(binding: Binding, atom: Atom | None, groups: Iterable[MachineGroup]) -> int:
    return sum(_of_machines(binding, atom, group, group.count) for group in groups)


def _of_machines(binding: Binding, atom: Atom | None, group: MachineGroup, count: int) -> int:
    """Return what `count` machines of a group have of the binding's resource, or in bundles."""
    if not _serves(group, atom):
        return 0
    if binding.resource is not None:
        return count * group.resources.get(binding.resource, 0)
    return 2**62 if atom is None else count * bundles_per_machine(group.resources, atom.bundle)


def _serves(group: MachineGroup, atom: Atom | None) -> bool:
    return atom is None or atom.on is None or atom.on in group.labels

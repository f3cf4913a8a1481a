"""Why a request is refused, in a sentence for people: names of its parts, units, local times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import comb
from typing import Final

from planner.cluster.cluster import (
    RESERVED,
    SPARE,
    Cluster,
    MachineGroup,
    Outage,
    Pool,
    bundles_per_machine,
)
from planner.placement import Binding
from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.expressions import Atom, Expression, atom_at
from rdl.local_time import span_words, time_words, zone_named
from rdl.names import place_words
from rdl.resources import CPU, MEMORY, format_amount
from rdl.time_grid import TimeGrid, duration_text

_HOUR_MS = 3_600_000
_MIB_IN_GIB = 1024

_MOST_SHOWN: Final = 2

#: Most outages among which to search for the cause of a refusal.
_MOST_OUTAGES: Final = 500


def part_text(binding: Binding) -> str:
    """Return the name of the part without a place for use in a sentence."""
    return "the request" if binding.name is None else binding.name


def time_text(step: int, grid: TimeGrid, zone: str | None = None) -> str:
    """Return a step as people say it: in a zone where the plan has an origin, else from there.

    ``Mon 2026-01-05 09:00 (UTC)``, or ``1h30m from the origin``; without a `zone` in the plan's.
    """
    return time_words(grid.ms(step), grid, zone)


def free_text(resource: str, free: int) -> str:
    """Return the rest as a text: ``2 GiB memory is left``, ``no cpu is left``, and the missing
    amount."""
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


def bundles_text(count: int) -> str:
    """Return ``1 bundle``, ``12 bundles``."""
    return f"{count:,} bundle{'' if count == 1 else 's'}"


def least_sentence(grid: TimeGrid, binding: Binding, zone: str | None) -> str:
    """Return the sentence of a refusal for lack of free capacity at one step."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    part, at = part_text(binding), time_text(binding.at, grid, zone)
    if binding.resource is None:
        needed = bundles_text(binding.needed)
        return f"{part} needs {needed} at once; at {at} machines hold {binding.free} of them"
    resource = binding.resource
    limit = f" within policy {binding.policy}" if binding.policy else ""
    return (
        f"{part} needs at least {format_amount(resource, binding.needed)} at once; "
        f"{free_text(resource, binding.free)}{limit} at {at}, where least is free"
    )


def together_sentence(grid: TimeGrid, binding: Binding, bundles: int, zone: str | None) -> str:
    """Return the sentence of a refusal where machines do not hold all members of a `together`.

    Parameters
    ----------
    bundles
        The number of all members.
    """
    assert binding.at is not None
    return (
        f"{part_text(binding)} needs {bundles_text(bundles)} at the same time; at "
        f"{time_text(binding.at, grid, zone)} machines do not hold all of them"
    )


def machines_sentence(
    grid: TimeGrid,
    binding: Binding,
    until: int,
    zone: str | None,
    rule: MachineRule = ANYWHERE,
    by_value: Sequence[tuple[tuple[str, ...], int]] = (),
) -> str:
    """Return the sentence of a refusal where the pool has capacity and machines have not.

    Parameters
    ----------
    until
        Step at which the bundles that found no machine would end.
    rule, by_value
        For an atom with `within`: (values, bundles that they hold), largest first.
    """
    assert binding.at is not None
    assert binding.needed is not None
    span = span_words(grid.ms(binding.at), grid.ms(until), grid, zone)
    free = "none" if not binding.free else f"only {binding.free}"
    if by_value and rule.within is not None:
        (most, held), (least, few) = by_value[0], by_value[-1]
        place = place_words(rule.within, rule.values)
        needed = f"{part_text(binding)} needs {bundles_text(binding.needed)} in {place}"
        none, holds, has, have = f"no {rule.values}", "hold", "have", "have"
        if rule.values == 1:
            none, holds, has, have = f"no {rule.within}", "holds", "has", "has"
        elif len(by_value) < comb(len({name for one, _ in by_value for name in one}), rule.values):
            none = f"none of the {len(by_value)} choices of {rule.values} tried"
            holds, has = "holds", "has"
        if held >= binding.needed:  # at other times of its allocation it has less
            return f"{needed}, {span}, and {none} {holds} all of its allocation"
        last = f", {' and '.join(least)} {have} {few}" if len(by_value) > 1 else ""
        return f"{needed}, {span}; {none} {has} as many: {' and '.join(most)} {have} {held}{last}"
    return (
        f"{part_text(binding)} needs machines for {bundles_text(binding.needed)}, {span}; the "
        f"pool has capacity, but machines hold {free} of them"
    )


def room_sentence(grid: TimeGrid, binding: Binding, at_once: str, zone: str | None) -> str:
    """Return the sentence of a refusal where a height fits for a while: lease, work or shape.

    Parameters
    ----------
    at_once
        The amounts of its least height: ``16 gpu``.
    """
    assert binding.needed is not None
    assert binding.free is not None
    part = part_text(binding)
    needed, free = duration_text(binding.needed), duration_text(binding.free)
    of = f" within policy {binding.policy}" if binding.policy else ""
    scarce = binding.resource or "capacity on machines"
    where = "" if binding.at is None else f" at {time_text(binding.at, grid, zone)}"
    if binding.kind == "lease":
        until = where.replace(" at ", ", until ", 1)
        cut = f"{until}, for lack of {scarce}{of}" if where else ""
        longest = f"the longest free stretch is {free}{cut}"
        if not binding.free:
            longest = f"it is free at no time{of}" if not where else f"{scarce} is short{where}{of}"
        return f"{part} needs {at_once} for {needed} without a break; {longest}"
    tight = f"; least {scarce} is free{where}{of}" if where else ""
    if binding.kind == "work":
        return (
            f"{part} needs {needed} of work (time times bundles); its window has capacity for "
            f"{free}{tight}"
        )
    return (
        f"{part} needs {needed} of work (time times bundles) in whole leases; its window has room "
        f"for {free}, but no leases were found that make it up{tight}"
    )


def average_sentence(grid: TimeGrid, binding: Binding, zone: str | None) -> str:
    """Return the sentence of a refusal by a policy on averages over a sliding window."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    resource = binding.resource or ""
    left = area_text(resource, max(0, binding.free), grid.step_ms)
    return (
        f"{part_text(binding)} takes {area_text(resource, binding.needed, grid.step_ms)}; policy "
        f"{binding.policy} leaves {left} in its window that starts at "
        f"{time_text(binding.at, grid, zone)}"
    )


def more_sentence(grid: TimeGrid, binding: Binding, zone: str | None) -> str:
    """Return the error of taking more than is free at one step."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    resource = binding.resource or ""
    where = f" within policy {binding.policy}" if binding.policy else ""
    return (
        f"{part_text(binding)} takes {format_amount(resource, binding.needed)} more at "
        f"{time_text(binding.at, grid, zone)}; {free_text(resource, binding.free)}{where}"
    )


def more_average_sentence(
    grid: TimeGrid, binding: Binding, window_ms: int, zone: str | None
) -> str:
    """Return the error of exceeding an average over a window."""
    assert binding.at is not None
    assert binding.needed is not None
    assert binding.free is not None
    resource = binding.resource or ""
    return (
        f"{part_text(binding)} takes {area_text(resource, binding.needed, grid.step_ms)} more in "
        f"the {duration_text(window_ms)} from {time_text(binding.at, grid, zone)} on; policy "
        f"{binding.policy} leaves {area_text(resource, max(0, binding.free), grid.step_ms)}"
    )


def cause_text(
    binding: Binding | None, expression: Expression, cluster: Cluster, grid: TimeGrid
) -> str:
    """Return the cause of a shortage as the end of a sentence; empty if none is known."""
    if binding is None or binding.kind in ("gap", "promise"):
        return ""
    if binding.policy is not None:
        return _lending_text(binding, cluster)
    atom = atom_at(expression, binding.path)
    is_amount = binding.kind not in ("lease", "work", "shape")
    needed, free = binding.needed or 0, binding.free or 0
    pool = cluster.pool(binding.resource)
    if pool is not None:
        return _pool_text(pool, binding, cluster, grid, zone_named(expression))
    if is_amount and needed > (whole := _capacity(binding, atom, cluster)):
        if binding.resource is None:
            return f"; all machines of the cluster together hold {whole}"
        return f"; the whole cluster has {format_amount(binding.resource, whole)}"
    if binding.at is None or len(cluster.outages) > _MOST_OUTAGES:
        return ""
    start_ms, end_ms = grid.ms(binding.at), grid.ms(binding.at + 1)
    near = cluster.outages_between(start_ms, end_ms)
    away = [one for one in near if _covers(one, start_ms, end_ms)]
    groups = {group.name: group for group in cluster.machines}
    absent = [(one, groups[one.machines]) for one in away if one.machines in groups]
    if is_amount:
        gone = sum(_of_machines(binding, atom, group, len(one.indices)) for one, group in absent)
        if free + gone < needed:
            return ""
    zone = zone_named(expression)
    said = [_away(one, grid, zone) for one, group in absent if _serves(group, atom)]
    return "".join(f"; {words}" for words in said[:_MOST_SHOWN])


def _lending_text(binding: Binding, cluster: Cluster) -> str:
    """Return guarantee and limit of a quota that lends, or of a cohort; empty for others."""
    resource = binding.resource
    if resource is None:
        return ""
    for cohort in cluster.cohorts.values():
        if binding.policy == cohort.whole.name:
            whole = format_amount(resource, dict(cohort.whole.limit)[resource])
            return f"; the quotas of the cohort have {whole} together, borrowed amounts included"
        for member in cohort.members:
            if binding.policy == member.name:
                own = format_amount(resource, dict(member.guarantee)[resource])
                most = format_amount(resource, cohort.lends_to(member, resource))
                ahead = duration_text(member.lend_ms)
                return (
                    f"; it guarantees {own}, and at times less than {ahead} ahead up to {most} with"
                    f" what cohort {cohort.name} has left"
                )
    return ""


def _pool_text(
    pool: Pool, binding: Binding, cluster: Cluster, grid: TimeGrid, zone: str | None
) -> str:
    """Return how many units a pool has, in which period, and which of them are down."""
    said = f"; the pool {pool.name} has {pool.count:,}"
    for word, ms in (("from", pool.start_ms), ("until", pool.end_ms)):
        said += "" if ms is None else f" {word} {time_words(ms, grid, zone)}"
    if binding.at is None:
        return said
    span_ms = grid.ms(binding.at), grid.ms(binding.at + 1)
    near = cluster.pool_outages_between(*span_ms)
    away = [one for one in near if one.machines == pool.name and _covers(one, *span_ms)]
    return said + "".join(
        f"; {len(one.indices):,} of them away for {maintenance_words(one, grid, zone)}"
        for one in away[:_MOST_SHOWN]
    )


def _away(outage: Outage, grid: TimeGrid, zone: str | None) -> str:
    """Return the outages: machines, reason, user and period."""
    count = len(outage.indices)
    if count > 1:
        machines = f"{count} machines of {outage.machines} are"
    else:
        machines = f"1 machine of {outage.machines} is"
    return f"{machines} away for {maintenance_words(outage, grid, zone)}"


def maintenance_words(outage: Outage, grid: TimeGrid, zone: str | None) -> str:
    """Return an outage in words: ``maintenance 'new switch' (o-7) by ann, Sun 02:00 to 06:00``."""
    why = f" '{outage.reason}'" if outage.reason else ""
    by = f" by {outage.by}" if outage.by else ""
    when = span_words(outage.start_ms, outage.end_ms, grid, zone)
    return f"{outage.kind}{why} ({outage.id}){by}, {when}"


def _covers(outage: Outage, start_ms: int, end_ms: int) -> bool:
    hidden = outage.kind in (RESERVED, SPARE)
    return not hidden and outage.start_ms < end_ms and outage.end_ms > start_ms


def _capacity(binding: Binding, atom: Atom | None, cluster: Cluster) -> int:
    groups = cluster.machines
    whole = sum(_of_machines(binding, atom, group, group.count) for group in groups)
    for at, _, left in cluster.reduced:
        whole -= _of_machines(binding, atom, groups[at], 1)
        whole += _of_machines(binding, atom, replace(groups[at], resources=left), 1)
    return whole


def _of_machines(binding: Binding, atom: Atom | None, group: MachineGroup, count: int) -> int:
    """Return the amount of the binding's resource, or bundles, on `count` machines of a group."""
    if not _serves(group, atom):
        return 0
    if binding.resource is not None:
        return count * group.resources.get(binding.resource, 0)
    return 2**62 if atom is None else count * bundles_per_machine(group.resources, atom.bundle)


def _serves(group: MachineGroup, atom: Atom | None) -> bool:
    return atom is None or atom.on is None or atom.on in group.labels

"""The cause of a shortage: machines that are down, or a cluster that is too small."""

from __future__ import annotations

from collections.abc import Iterable
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
from rdl.expressions import Atom, Expression, atom_at
from rdl.local_time import span_words, time_words, zone_named
from rdl.resources import format_amount
from rdl.time_grid import TimeGrid, duration_text

_MOST_SHOWN: Final = 2

#: Most outages among which to search for the cause of a refusal.
_MOST_OUTAGES: Final = 500


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
    if is_amount and needed > (whole := _capacity(binding, atom, cluster.machines)):
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
    """Return what is down, why, by whom and in which period."""
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


def _capacity(binding: Binding, atom: Atom | None, groups: Iterable[MachineGroup]) -> int:
    return sum(_of_machines(binding, atom, group, group.count) for group in groups)


def _of_machines(binding: Binding, atom: Atom | None, group: MachineGroup, count: int) -> int:
    """Return the amount of the binding's resource, or bundles, on `count` machines of a group."""
    if not _serves(group, atom):
        return 0
    if binding.resource is not None:
        return count * group.resources.get(binding.resource, 0)
    return 2**62 if atom is None else count * bundles_per_machine(group.resources, atom.bundle)


def _serves(group: MachineGroup, atom: Atom | None) -> bool:
    return atom is None or atom.on is None or atom.on in group.labels

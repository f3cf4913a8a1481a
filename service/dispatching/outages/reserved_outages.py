"""Outages of the Plan for machines and units of pools that others use in Slurm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.cluster.cluster import RESERVED, Cluster, Outage


def outages_with_reserved(
    cluster: Cluster, spans: Iterable[ForeignSpan], now_ms: int
) -> tuple[Outage, ...]:
    """Return the outages of a cluster with those of machines that others have reserved.

    Outages of the kind ``reserved`` without a span end now, or are removed; others stay.

    Parameters
    ----------
    spans
        Times in ms from the origin. A span that began earlier is an outage from now on; a machine
        is down for the whole step in which it is taken, so that a later check finds the same
        outage.
    now_ms
        Now, in ms from the origin.
    """
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    wanted: dict[str, dict[tuple[int, int], str]] = {}
    for one in spans:
        if one.end > now_ms:
            start_ms = one.start // cluster.step_ms * cluster.step_ms
            wanted.setdefault(one.machine, {})[start_ms, one.end] = one.reservation
    kept: list[Outage] = []
    for outage in cluster.outages:
        if outage.kind != RESERVED or outage.end_ms <= now_ms:
            kept.append(outage)
            continue
        stay: list[int] = []
        over: list[int] = []
        for index in outage.indices:
            mine = wanted.get(f"{outage.machines}-{index}", {})
            span = _match(outage, mine, now_ms)
            if span is None:
                over.append(index)
            else:
                del mine[span]
                stay.append(index)
        if stay:
            kept.append(replace(outage, indices=tuple(stay)))
        if over and outage.start_ms < now_ms:
            kept.append(replace(outage, indices=tuple(over), end_ms=now_ms))
    return (*kept, *_outages_of(wanted, cluster, now_ms))


def _match(outage: Outage, spans: Iterable[tuple[int, int]], now_ms: int) -> tuple[int, int] | None:
    """Return the span of a machine that matches an outage; one that has begun continues."""
    for start_ms, end_ms in spans:
        begun = outage.start_ms <= now_ms and start_ms <= now_ms
        if end_ms == outage.end_ms and (begun or start_ms == outage.start_ms):
            return start_ms, end_ms
    return None


def _outages_of(
    spans: Mapping[str, Mapping[tuple[int, int], str]], cluster: Cluster, now_ms: int
) -> list[Outage]:
    """Return one outage for all machines of a group with the same times and reason."""
    counts = cluster.sizes()
    alike: dict[tuple[str, int, int, str], set[int]] = {}
    for name, mine in spans.items():
        group, _, index = name.rpartition("-")
        if int(index) < counts.get(group, 0):
            for (start_ms, end_ms), why in mine.items():
                kind = (group, max(start_ms, now_ms), end_ms, why)
                alike.setdefault(kind, set()).add(int(index))
    return [
        Outage(group, tuple(sorted(indices)), start_ms, end_ms, RESERVED, reason=_in_words(why))
        for (group, start_ms, end_ms, why), indices in sorted(alike.items())
    ]


def _in_words(why: str) -> str:
    """Return the holder of the machines in Slurm: the name of a reservation, or ``job 7``."""
    return f"in Slurm: {why}" if why else ""

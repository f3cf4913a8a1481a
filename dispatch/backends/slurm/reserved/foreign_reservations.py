"""Slurm reservations made by others, such as for maintenance, whose machines the Plan cannot use.

Slurm starts no job on a node that might overlap one of them, so that a promise there would be
broken. The nodes count as down from a minute before its start, because Slurm's time limits are
whole minutes, until its end, whoever may run jobs in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from dispatch.backends.slurm.control.records import SlurmReservation

#: How long before its start the machines of a reservation are down, s.
_LEAD_S: Final = 60


class ForeignSpan(NamedTuple):
    """A machine, or a unit of a pool, that Agenda cannot use; the unit of its times varies."""

    machine: str
    start: int
    end: int
    reservation: str


def foreign_spans(
    reservations: Iterable[SlurmReservation], prefix: str, machine_of: Mapping[str, str]
) -> Iterator[ForeignSpan]:
    """Yield the machines of others' reservations, and when they are unavailable, in Unix time.

    Parameters
    ----------
    prefix
        Prefix of Agenda's own reservations.
    machine_of
        The machine of each node of Slurm; other nodes do not count.
    """
    for one in reservations:
        if one.name.startswith(f"{prefix}_") or one.floats:
            continue
        for node in one.nodes:
            if node in machine_of and one.start_s < one.end_s:
                begin_s = one.start_s - _LEAD_S
                yield ForeignSpan(machine_of[node], begin_s, one.end_s, one.name)


def foreign_begin(reservations: Iterable[SlurmReservation], node: str, now_s: int) -> int:
    """Return when the next reservation of others begins on a node, Unix time; 0 for none."""
    begins = [
        one.start_s
        for one in reservations
        if node in one.nodes and one.end_s > now_s and not one.floats
    ]
    return min(begins, default=0)

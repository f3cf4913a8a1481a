"""Reservations of Slurm that others made, such as for maintenance: machines that the Plan has not.

Slurm starts no job on a node that would reach into one of them, so that a promise there would be
broken; nodes are away from begin to end, whoever may run jobs in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from dispatch.backends.slurm.control.records import SlurmReservation

#: Flag of a reservation whose begin moves on with the clock: it never begins.
_FLOATING: Final = "TIME_FLOAT"


class ForeignSpan(NamedTuple):
    """A machine that is not Agenda's from one instant to another; of which unit the caller says."""

    machine: str
    start: int
    end: int
    reservation: str


def foreign_spans(
    reservations: Iterable[SlurmReservation], prefix: str, machine_of: Mapping[str, str]
) -> Iterator[ForeignSpan]:
    """Yield the machines of reservations that others made, from and to Unix times.

    Parameters
    ----------
    prefix
        What names of Agenda's own begin with.
    machine_of
        The machine of each node of Slurm; other nodes do not count.
    """
    for one in reservations:
        if one.name.startswith(f"{prefix}_") or _FLOATING in one.flags:
            continue
        for node in one.nodes:
            if node in machine_of and one.start_s < one.end_s:
                yield ForeignSpan(machine_of[node], one.start_s, one.end_s, one.name)

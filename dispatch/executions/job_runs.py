"""Runs of a recurring job: the occurrences of its reservation, and the runs that are due."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from planner.reservations.reservation import AtomAllocation
from rdl.time_grid import TimeGrid

_OCCURRENCE: Final = re.compile(r"@([0-9]+)")


class Overlap(StrEnum):
    """The treatment of a run that is due before the previous run of its job has ended."""

    QUEUE = "queue"  # it starts when the earlier one has ended, however late
    SKIP = "skip"  # it is not started
    PARALLEL = "parallel"  # it starts


class JobOccurrence(NamedTuple):
    """One occurrence of a job; tuples compare in the order in which runs start.

    Attributes
    ----------
    start_ms
        Start of its first slot, in ms from the origin.
    number
        Number of the occurrence, as in paths.
    end_ms
        End of its last slot.
    """

    start_ms: int
    number: int
    end_ms: int


class Decision(StrEnum):
    """The decision about an occurrence that is due."""

    START = "start"
    SKIP = "skip"  # an earlier run has not ended
    MISS = "miss"  # its slots are over, and no server dispatched meanwhile
    WAIT = "wait"  # until the earlier run has ended


def occurrence_of(path: str) -> int | None:
    """Return the number of the outermost occurrence in a path; None if it has none."""
    found = _OCCURRENCE.search(path)
    return None if found is None else int(found[1])


def job_occurrences(atoms: Iterable[AtomAllocation], grid: TimeGrid) -> list[JobOccurrence]:
    """Return the occurrences for which the atoms of a reservation hold something, by start."""
    spans: dict[int, tuple[int, int]] = {}
    for number, start, end in _spans_of(atoms):
        first, last = spans.get(number, (start, end))
        spans[number] = min(first, start), max(last, end)
    return sorted(
        JobOccurrence(grid.ms(start), number, grid.ms(end))
        for number, (start, end) in spans.items()
    )


def _spans_of(atoms: Iterable[AtomAllocation]) -> Iterator[tuple[int, int, int]]:
    """Yield number, first step and last step of each atom's allocation in each occurrence."""
    for atom in atoms:
        for path, rows in atom.occurrences():
            number = occurrence_of(path)
            if number is not None and len(rows):
                yield number, int(rows[0, 0]), int(rows[-1, 1])


def spans_of_parts(atoms: Iterable[AtomAllocation]) -> dict[str, tuple[int, int]]:
    """Return the first and the last step of the allocation of each atom and each part above it.

    A stage of members of a `together` has the path of that.
    """
    spans: dict[str, tuple[int, int]] = {}
    for atom in atoms:
        for path, rows in atom.occurrences():
            if not len(rows):
                continue
            start, end = int(rows[0, 0]), int(rows[-1, 1])
            above: str | None = path
            while above is not None:
                first, last = spans.get(above, (start, end))
                spans[above] = min(first, start), max(last, end)
                above = above.rpartition(".")[0] if above else None
    return spans


def due_after(
    occurrences: Sequence[JobOccurrence], last: tuple[int, int], now_ms: int
) -> list[JobOccurrence]:
    """Return the occurrences that have begun and come after the one that was started last.

    Parameters
    ----------
    last
        Start and number of that one; (-1, -1) before the first.
    """
    return [one for one in occurrences if one.start_ms <= now_ms and one[:2] > last]


def decide(
    occurrence: JobOccurrence, overlap: Overlap, now_ms: int, *, is_running: bool
) -> Decision:
    """Return the decision about an occurrence that is due; `is_running`: an earlier run is."""
    if overlap is Overlap.QUEUE:
        return Decision.WAIT if is_running else Decision.START
    if occurrence.end_ms <= now_ms:
        return Decision.MISS
    return Decision.SKIP if is_running and overlap is Overlap.SKIP else Decision.START

"""What every reader of finished runs returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from planner.history.run import ONE_CORE, Stretch
from service.importers.lines import LARGEST, Skipped, TraceError

#: No run is believed to last longer, some three years.
_LONGEST_S: Final = 10**8
#: Latest instant that is believed: the year 2242.
_LATEST_S: Final = 2**33
_MOST_CONTAINERS: Final = 10**7


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run that ended well.

    Attributes
    ----------
    name
        As the history has it, the number of the run or its date included.
    user, queue
        Empty where the history does not say.
    began_s
        Seconds since 1970-01-01T00:00:00Z, or since the zero of a trace without a calendar.
    stretches
        What it held from then on.
    bundle
        What one container is: amounts by resource, in millicores, MiB and units.
    """

    name: str
    user: str
    queue: str
    began_s: float
    stretches: tuple[Stretch, ...]
    bundle: Mapping[str, int] = field(default_factory=lambda: dict(ONE_CORE))


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The runs of a history.

    Attributes
    ----------
    runs
        In order of the history.
    skipped
        Records that are no run that ended well.
    calendar
        Whether times are instants.
    is_mean
        Whether only the mean width of runs is known, not their width over time.
    """

    runs: tuple[FinishedRun, ...]
    skipped: tuple[Skipped, ...]
    calendar: bool = True
    is_mean: bool = False


def held(seconds: float, width: int, line: int) -> tuple[Stretch, ...]:
    """Return what a run held that had the same width throughout.

    Raises
    ------
    TraceError
        If nobody would believe it.
    """
    if seconds <= 0:
        raise TraceError(f"line {line}: a run ends after it begins; this one lasts {seconds:g} s")
    if not seconds <= _LONGEST_S:
        raise TraceError(f"line {line}: a run lasts up to {_LONGEST_S} s, not {seconds:g}")
    if not 0 < width <= _MOST_CONTAINERS:
        raise TraceError(f"line {line}: a run holds up to {_MOST_CONTAINERS} cores, not {width}")
    return (Stretch(seconds, width),)


def began(seconds: float, line: int) -> float:
    """Return the begin of a run.

    Raises
    ------
    TraceError
        If it lies outside every calendar.
    """
    if not (isfinite(seconds) and 0 <= seconds <= _LATEST_S):
        raise TraceError(f"line {line}: a run begins at 0 to {_LATEST_S} s, not {seconds:g}")
    return seconds


def mebibytes_a_core(mebibytes: float, cores: float) -> dict[str, int]:
    """Return the container of one core and its share of a memory; without any, one core."""
    share = -int(-min(mebibytes, LARGEST) // max(cores, 1))
    return {**ONE_CORE, "memory": share} if share > 0 else dict(ONE_CORE)


def column_places(header: Sequence[str], needed: Sequence[str], separator: str) -> dict[str, int]:
    """Return where each column stands.

    Raises
    ------
    TraceError
        If one of those needed is not there.
    """
    places = {name.strip(): place for place, name in enumerate(header)}
    missing = [name for name in needed if name not in places]
    if missing:
        raise TraceError(
            f"line 1: no column {missing[0]}; there are {separator.join(header)[:200]}"
        )
    return places

"""Finished runs of jobs: what every reader of a history returns, and which are of one job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, isfinite
from typing import Final

from planner.history.run import ONE_CORE, JobRun, Stretch, common_container, stretches_of
from rdl.resources import CPU, MEMORY
from service.importers.lines import Skipped, TraceError

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
        Empty if the history does not say.
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
        If no one would believe it.
    """
    if seconds <= 0:
        raise TraceError(f"line {line}: a run ends after it begins; this one lasts {seconds:g} s")
    if not seconds <= _LONGEST_S:
        raise TraceError(f"line {line}: a run lasts up to {_LONGEST_S} s, not {seconds:g}")
    if not 0 < width <= _MOST_CONTAINERS:
        raise TraceError(f"line {line}: a run holds up to {_MOST_CONTAINERS} cores, not {width}")
    return (Stretch(seconds, width),)


def began(seconds: float, line: int) -> float:
    """Return the start of a run.

    Raises
    ------
    TraceError
        If it lies outside every calendar.
    """
    if not (isfinite(seconds) and 0 <= seconds <= _LATEST_S):
        raise TraceError(f"line {line}: a run begins at 0 to {_LATEST_S} s, not {seconds:g}")
    return seconds


def joined(parts: Sequence[FinishedRun]) -> FinishedRun:
    """Return the run that the parts of a job are together: their widths over time."""
    bundle, scaled = common_container([(part.stretches, part.bundle) for part in parts])
    spans = [
        (part.began_s, part.began_s + one.seconds, one.width)
        for part, (one,) in zip(parts, scaled, strict=True)
    ]
    began_s = min(part.began_s for part in parts)
    return replace(parts[0], began_s=began_s, stretches=stretches_of(spans), bundle=bundle)


def containers(total: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Return how many equal containers an amount of resources is, and what one is.

    One is a core with its share of the memory. Units that cannot be divided, such as GPUs, are
    spread evenly: one container is then what belongs to one of them, and never more of them in all.
    """
    units = gcd(*(amount for name, amount in total.items() if name not in (CPU, MEMORY)))
    width = units or max(1, -(-total.get(CPU, 0) // ONE_CORE[CPU]))
    return width, {name: -(-amount // width) for name, amount in total.items() if amount > 0}


#: What runs of one job may share; the first two are usual.
KEYS: Final = ("user", "name", "exact-name", "queue", "width")
USUAL_KEYS: Final = ("user", "name")

_DATE = (
    r"(?:19|20)\d\d[-_./]?(?:0[1-9]|1[0-2])[-_./]?(?:0[1-9]|[12]\d|3[01])"
    r"(?:[T_\- ]?\d\d[:_\-h]?\d\d(?:[:_\-m]?\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?"
)
_DATED = re.compile(rf"(?<!\d){_DATE}(?!\d)")
_NUMBERED = re.compile(
    r"(?:[-_.:#/ (\[]+(?:attempt|retry|try|run|rerun|part|no)?[-_.:#/ ]*\d+[)\]]*|\(\d+\)|"
    r"[-_.:#/ (\[]+(?:retry|rerun)[)\]]*|"
    r"[-_.:#/ ]+(?=[0-9a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4})\Z",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"([-_.:#/ ])[-_.:#/ ]+")
_EDGES: Final = "-_.:#/ (["


def recurring_name(name: str) -> str:
    """Return a name without what changes from run to run.

    Dates and times anywhere, numbers and attempts at the end: ``etl-2026-11-22`` and
    ``etl_20261123_attempt_2`` are runs of ``etl``. A number that belongs to a word stays
    (``layer3``), and a name of nothing else stays as it is.
    """
    left = _DATED.sub("", name).strip()
    while (found := _NUMBERED.search(left)) is not None:
        left = left[: found.start()]
    return _SEPARATORS.sub(r"\1", left).strip(_EDGES) or name


def job_name(run: FinishedRun, keys: Sequence[str]) -> str:
    """Return the name that all runs of a job share, by what they are distinguished by."""
    parts = {
        "user": run.user,
        "name": recurring_name(run.name),
        "exact-name": run.name,
        "queue": run.queue,
        "width": f"x{max(stretch.width for stretch in run.stretches)}",
    }
    return "/".join(parts[key] for key in keys if parts[key])


def job_runs(runs: Iterable[FinishedRun], keys: Sequence[str]) -> list[JobRun]:
    """Return runs under the names of their jobs."""
    return [JobRun(job_name(run, keys), run.began_s, run.stretches, run.bundle) for run in runs]

"""Finished runs of jobs: the result of all readers of histories, and the grouping by job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, isfinite
from typing import Final

from planner.history.run import ONE_CORE, JobRun, Stretch, common_container, stretches_of
from rdl.resources import CPU, MEMORY
from service.importers.lines import Skipped, TraceError

#: Longest plausible run, some three years.
_LONGEST_S: Final = 10**8
#: Latest plausible instant: the year 2242.
_LATEST_S: Final = 2**33
_MOST_CONTAINERS: Final = 10**7


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One successful run.

    Attributes
    ----------
    name
        The name in the history, including the number of the run or its date.
    user, queue
        Empty if the history lacks them.
    began_s
        Seconds since 1970-01-01T00:00:00Z, or since the zero of a trace without a calendar.
    stretches
        Its widths from the start on.
    bundle
        The size of a container: amounts by resource, in millicores, MiB and units.
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
        Records that are not successful runs.
    calendar
        Whether times are instants, not offsets from a trace's zero.
    is_mean
        Whether runs have only a mean width, no width over time.
    """

    runs: tuple[FinishedRun, ...]
    skipped: tuple[Skipped, ...]
    calendar: bool = True
    is_mean: bool = False


def held(seconds: float, width: int, line: int) -> tuple[Stretch, ...]:
    """Return the stretches of a run with a constant width.

    Raises
    ------
    TraceError
        If the duration or the width is implausible.
    """
    if seconds <= 0:
        raise TraceError(f"line {line}: a run ends after it begins; this one lasts {seconds:g} s")
    if not seconds <= _LONGEST_S:
        raise TraceError(f"line {line}: a run lasts up to {_LONGEST_S} s, not {seconds:g}")
    if not 0 < width <= _MOST_CONTAINERS:
        raise TraceError(f"line {line}: a run has up to {_MOST_CONTAINERS} cores, not {width}")
    return (Stretch(seconds, width),)


def began(seconds: float, line: int) -> float:
    """Return the start of a run.

    Raises
    ------
    TraceError
        If it is outside the supported years.
    """
    if not (isfinite(seconds) and 0 <= seconds <= _LATEST_S):
        raise TraceError(f"line {line}: a run begins at 0 to {_LATEST_S} s, not {seconds:g}")
    return seconds


def joined(parts: Sequence[FinishedRun]) -> FinishedRun:
    """Join the parts of a job into one run with their total width over time."""
    bundle, scaled = common_container([(part.stretches, part.bundle) for part in parts])
    spans = [
        (part.began_s, part.began_s + one.seconds, one.width)
        for part, (one,) in zip(parts, scaled, strict=True)
    ]
    began_s = min(part.began_s for part in parts)
    return replace(parts[0], began_s=began_s, stretches=stretches_of(spans), bundle=bundle)


def containers(total: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Divide an amount of resources into equal containers; return their number and the size of one.

    A container is a core with its share of the memory. Units that cannot be divided, such as GPUs,
    are divided evenly among the containers, and their total does not grow.
    """
    units = gcd(*(amount for name, amount in total.items() if name not in (CPU, MEMORY)))
    width = units or max(1, -(-total.get(CPU, 0) // ONE_CORE[CPU]))
    return width, {name: -(-amount // width) for name, amount in total.items() if amount > 0}


#: Attributes that runs of one job may share; the first two are the default.
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
    """Return a name without the parts that change from run to run.

    These are dates and times anywhere, and numbers and attempts at the end: ``etl-2026-11-22`` and
    ``etl_20261123_attempt_2`` are runs of ``etl``. A number that is part of a word stays
    (``layer3``), and a name that has only such parts stays as it is.
    """
    left = _DATED.sub("", name).strip()
    while (found := _NUMBERED.search(left)) is not None:
        left = left[: found.start()]
    return _SEPARATORS.sub(r"\1", left).strip(_EDGES) or name


def job_name(run: FinishedRun, keys: Sequence[str]) -> str:
    """Return the name of a run's job, from the keys that distinguish jobs."""
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

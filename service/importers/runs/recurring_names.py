"""Which runs are of one recurring job: names without dates, numbers and attempts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from planner.history.run import JobRun
from service.importers.runs.finished_run import FinishedRun

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
    """Return the name that all runs of a job share, by what they are told apart by."""
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

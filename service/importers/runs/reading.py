"""Histories of finished runs in every format, told apart by how they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from rdl.codecs.strict_json import JsonTextError, read_json
from service.importers.lines import TraceError, open_trace
from service.importers.runs.agenda_applications import read_applications
from service.importers.runs.finished_run import RunHistory
from service.importers.runs.jobs_csv import read_jobs_csv
from service.importers.runs.slurm import read_slurm
from service.importers.runs.swf_runs import read_swf_runs
from service.importers.runs.yarn_apps import read_yarn_apps

#: Format -> what it is.
RUN_FORMATS: Final[Mapping[str, str]] = {
    "jobs-csv": "jobs.csv of python -m bench.papers",
    "swf": "Standard Workload Format",
    "slurm": "sacct --parsable2 with its header",
    "yarn": "apps of YARN's ResourceManager, JSON",
    "agenda": "applications of a server, JSON",
}
_SWF_COLUMNS: Final = 18


def read_history(path: str, form: str | None, zone: tzinfo) -> RunHistory:
    """Read a history from a file, gzipped or not; ``-`` is standard input.

    Parameters
    ----------
    form
        One of `RUN_FORMATS`; None to tell it by how the file begins.
    zone
        Of times that name none.

    Raises
    ------
    TraceError
        If it cannot be read; the message names the line and what would be right.
    """
    lines = list(open_trace(path))
    form = form or _form_of(lines)
    if form == "jobs-csv":
        return read_jobs_csv(lines)
    if form == "swf":
        return read_swf_runs(lines)
    if form == "slurm":
        return read_slurm(lines, zone)
    document = _document(lines)
    return read_yarn_apps(document) if form == "yarn" else read_applications(document)


def _form_of(lines: Sequence[str]) -> str:
    """Return the format that a file begins like.

    Raises
    ------
    TraceError
        If it begins like none.
    """
    first = next((line.strip() for line in lines if line.strip()), "")
    if not first:
        raise TraceError("line 1: there is no history here: nothing but blanks")
    if first.startswith("{"):
        document = _document(lines)
        for key, form in (("apps", "yarn"), ("applications", "agenda")):
            if key in document:
                return form
    elif "|" in first and "JobName" in first.split("|"):
        return "slurm"
    elif "job_id" in first.split(","):
        return "jobs-csv"
    elif first.startswith(";") or len(first.split()) >= _SWF_COLUMNS:
        return "swf"
    said = "; ".join(f"{form}: {what}" for form, what in RUN_FORMATS.items())
    raise TraceError(f"line 1: this begins like no history of runs ({said}); say which by --format")


def _document(lines: Sequence[str]) -> Mapping[str, Any]:
    try:
        document = read_json("".join(lines))
    except JsonTextError as error:
        line = "" if error.at is None else f"line {error.at[1]}: "
        raise TraceError(f"{line}{error}") from error
    if not isinstance(document, dict):
        raise TraceError('line 1: an object is needed, such as {"apps": {"app": [...]}}')
    return document

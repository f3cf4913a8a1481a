"""Read histories of finished runs in all formats, which are detected by their first lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final

from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.resources import Resources
from service.importers.lines import Omissions, TraceError, open_trace
from service.importers.runs import FinishedRun, RunHistory, began, containers, held
from service.importers.sacct import read_slurm
from service.importers.stages import number, read_rows
from service.importers.swf import read_swf_runs
from service.importers.yarn import read_yarn_apps


def read_applications(document: Mapping[str, Any]) -> RunHistory:
    """Read the completed applications: all their components from start to end.

    Raises
    ------
    TraceError
        If no entry has the form of the server's list.
    """
    entries = document.get("applications")
    if not isinstance(entries, list):
        raise TraceError('"applications" is a list, as GET /v1/applications answers')
    runs: list[FinishedRun] = []
    omissions = Omissions()
    for place, entry in enumerate(entries, start=1):
        with omissions.reading(place):
            run = _read_run(entry, place)
            if run is None:
                omissions.add(place, f"{entry['id']} is {entry['state']}")
            else:
                runs.append(run)
    return RunHistory(tuple(runs), omissions.finish())


def _read_run(entry: Mapping[str, Any], place: int) -> FinishedRun | None:
    try:
        return _run(entry, place)
    except TraceError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise TraceError(
            f"application {place}: this is not an entry of the server's list ({error})"
        ) from error


def _run(entry: Mapping[str, Any], place: int) -> FinishedRun | None:
    start, end = entry["started"], entry["ended"]
    if entry["state"] != "completed" or start is None or end is None or end <= start:
        return None
    width, bundle = _containers(entry["application"]["components"])
    return FinishedRun(
        str(entry["application"].get("name") or entry["id"]),
        str(entry["tenant"]),
        str(entry["queue"]),
        began(_origin_s(entry, place) + start, place),
        held(end - start, width, place),
        bundle,
    )


def _origin_s(entry: Mapping[str, Any], place: int) -> float:
    """Return the origin of the server's times, Unix time."""
    try:
        submitted = datetime.fromisoformat(entry["submitted_at"])
    except ValueError as error:
        raise TraceError(
            f"application {place}: submitted_at is an instant, not {entry['submitted_at']!r}"
        ) from error
    return float(submitted.timestamp() - entry["submitted"])


def _containers(components: list[Mapping[str, Any]]) -> tuple[int, dict[str, int]]:
    """Return the number of containers of the components, and the size of one.

    Identical components are containers themselves; others are divided into equal ones.
    """
    if not components:
        raise ValueError("it has no components")
    needs = [(int(one["count"]), Resources.from_json(one["resources"])) for one in components]
    if len({need for _, need in needs}) == 1:
        return sum(count for count, _ in needs), dict(needs[0][1])
    total: dict[str, int] = {}
    for count, need in needs:
        for name, amount in need.items():
            total[name] = total.get(name, 0) + count * amount
    return containers(total)


COLUMNS: Final = (
    "job_id", "requested_number_of_resources", "success", "starting_time", "execution_time",
)  # fmt: skip


def read_jobs_csv(text: Iterable[str]) -> RunHistory:
    """Read the jobs that succeeded; times count from the zero of the trace.

    Raises
    ------
    TraceError
        If a column is missing, or no record can be read.
    """
    runs: list[FinishedRun] = []
    omissions = Omissions()
    for line, row in read_rows(text, COLUMNS, omissions):
        with omissions.reading(line):
            start, seconds = number(row, "starting_time", line), number(row, "execution_time", line)
            if row["success"] not in ("1", "True", "true") or start is None or not seconds:
                omissions.add(line, f"job {row['job_id']} did not succeed")
                continue
            width = number(row, "requested_number_of_resources", line) or 0
            runs.append(
                FinishedRun(
                    row["job_id"],
                    _tenant(row, line),
                    row.get("workload_name") or "",
                    began(start, line),
                    held(seconds, round(width), line),
                )
            )
    return RunHistory(tuple(runs), omissions.finish(), calendar=False)


def _tenant(row: Mapping[str, str], line: int) -> str:
    """Return the tenant in `metadata`, if any."""
    raw = row.get("metadata") or "{}"
    try:
        about = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"line {line}: metadata is a JSON object, not {raw[:40]!r}") from error
    return str(about.get("tenant", "")) if isinstance(about, dict) else ""


#: Format -> its description.
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
        One of `RUN_FORMATS`; None to detect it from the start of the file.
    zone
        Zone of times without one.

    Raises
    ------
    TraceError
        If the file cannot be read; the message has the line and the correction.
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
    """Return the format of a file, detected from its first lines.

    Raises
    ------
    TraceError
        If they match no format.
    """
    first = next((line.strip() for line in lines if line.strip()), "")
    if not first:
        raise TraceError("line 1: the file is blank")
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
    raise TraceError(f"line 1: the format of the history is not recognised ({said}); give --format")


def _document(lines: Sequence[str]) -> Mapping[str, Any]:
    try:
        document = read_json("".join(lines))
    except JsonTextError as error:
        line = "" if error.at is None else f"line {error.at[1]}: "
        raise TraceError(f"{line}{error}") from error
    if not isinstance(document, dict):
        raise TraceError('line 1: an object is needed, such as {"apps": {"app": [...]}}')
    return document

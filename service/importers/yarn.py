"""Import YARN's reservation submissions as requests, and its finished applications as runs.

YARN's calls have absolute times and no submission time: every request counts as submitted at the
origin, in the order of the file. Numbers of containers, durations and recurrences become RDL by
`rdl.codecs.yarn`; nothing is modelled.

``/ws/v1/cluster/apps?states=FINISHED`` has only totals: the width of an application is its total
divided by its duration, and is constant. A request from such a history is a rectangle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

from rdl.codecs.json_codec import to_json
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.codecs.yarn import YarnReservation, from_yarn
from rdl.durations import epoch_ms, instant_of_epoch_ms
from rdl.errors import RdlError
from service.importers.lines import LARGEST, Imported, Omissions, Skipped, TraceError
from service.importers.runs import FinishedRun, RunHistory, began, containers, held

_TENANT = "yarn"

#: Minimum horizon, a day: a recurring reservation needs capacity for its periods.
_LEAST_END_S = 86_400


def import_yarn(
    text: Iterable[str], step_s: int, origin: datetime | None = None, limit: int | None = None
) -> tuple[Imported, datetime]:
    """Read submissions into workload lines.

    Parameters
    ----------
    text
        One body (or bare definition), a JSON list of them, or one on each line.
    step_s
        Step of the cluster, for its horizon.
    origin
        Instant of step 0; if None, the start of the UTC day of the first arrival.
    limit
        Only the first `limit` submissions.

    Returns
    -------
    imported, origin
        Bodies that are not valid submissions are in `imported.skipped`, numbered from 1.

    Raises
    ------
    TraceError
        If the text is not JSON, or has no valid submission.
    """
    kept: list[tuple[Mapping[str, Any], YarnReservation]] = []
    skipped: list[Skipped] = []
    for number, body in enumerate(_bodies("".join(text)), start=1):
        if limit is not None and len(kept) >= limit:
            break
        try:
            kept.append((body, from_yarn(body)))
        except RdlError as error:
            skipped.append(Skipped(number, str(error)))
    if not kept:
        reasons = "".join(f"\n{entry.line}: {entry.why}" for entry in skipped[:5])
        raise TraceError(f"no valid reservation submission{reasons}")
    zero = origin or _day_of(min(reservation.arrival_ms for _, reservation in kept))
    last = max(reservation.deadline_ms for _, reservation in kept) - epoch_ms(zero)
    lines = tuple(_line(n, body, asked) for n, (body, asked) in enumerate(kept, start=1))
    return Imported(lines, step_s, max(_LEAST_END_S, -(-last // 1000)), tuple(skipped)), zero


def _bodies(text: str) -> list[Any]:
    """Return the JSON values of a text: entries of a list, a single value, or one per line."""
    try:
        whole = read_json(text)
    except JsonTextError as error:
        if not error.message.endswith("Extra data"):
            raise _unread(error, None) from error
        return [
            _one(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()
        ]
    return whole if isinstance(whole, list) else [whole]


def _one(line: str, number: int) -> Any:
    try:
        return read_json(line)
    except JsonTextError as error:
        raise _unread(error, number) from error


def _unread(error: JsonTextError, number: int | None) -> TraceError:
    """Return the error for text that is not JSON, with its line number if the file has lines."""
    line = number if number is not None or error.at is None else error.at[1]
    return TraceError(f"{error}" if line is None else f"line {line}: {error}")


def _day_of(ms: int) -> datetime:
    at = instant_of_epoch_ms(ms).astimezone(UTC)
    return at - timedelta(
        hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond
    )


def _line(number: int, body: Mapping[str, Any], asked: YarnReservation) -> dict[str, object]:
    line: dict[str, object] = {
        "id": str(body.get("reservation-id") or f"yarn-{number}"),
        "tenant": _TENANT,
    }
    if "queue" in body:
        line["queue"] = str(body["queue"])
    line["submitted"] = 0
    line["rdl"] = to_json(asked.expression)
    if asked.priority:
        line["priority"] = asked.priority
    return line


def read_yarn_apps(document: Mapping[str, Any]) -> RunHistory:
    """Read the successful applications, each with its mean width.

    Raises
    ------
    TraceError
        If no entry is an application with numbers.
    """
    apps = document.get("apps")
    entries = (apps or {}).get("app", []) if isinstance(apps, dict | None) else apps
    if not isinstance(entries, list):
        raise TraceError('"apps" is {"app": [...]}, as the ResourceManager lists applications')
    runs: list[FinishedRun] = []
    omissions = Omissions()
    for place, entry in enumerate(entries, start=1):
        with omissions.reading(place):
            if not isinstance(entry, dict):
                raise TraceError(f"application {place}: an object is needed, not {str(entry)[:40]}")
            name = str(entry.get("name") or entry.get("id") or "")
            if entry.get("finalStatus") != "SUCCEEDED":
                omissions.add(place, f"{name} is {entry.get('finalStatus', 'unknown')}")
                continue
            run = _run(entry, name, place)
            if run is None:
                omissions.add(place, f"{name} held nothing")
            else:
                runs.append(run)
    return RunHistory(tuple(runs), omissions.finish(), is_mean=True)


def _run(entry: Mapping[str, Any], name: str, place: int) -> FinishedRun | None:
    start, end = _number(entry, "startedTime", place), _number(entry, "finishedTime", place)
    launch = entry.get("launchTime")
    if isinstance(launch, int | float) and start < launch < end:
        start = float(launch)  # it holds containers from here on
    cores, mebibytes = _number(entry, "vcoreSeconds", place), _number(entry, "memorySeconds", place)
    seconds = (end - start) / 1000
    if seconds <= 0 or cores <= 0:
        return None
    most = ceil(cores / seconds - 1e-9)
    total = {
        "cpu": 1000 * most,
        "memory": most * ceil(mebibytes / cores),  # the memory per core, times the cores
        "gpu": ceil(_gpu_seconds(entry, place) / seconds - 1e-9),
    }
    width, bundle = containers(total)
    return FinishedRun(
        name,
        str(entry.get("user", "")),
        str(entry.get("queue", "")),
        began(start / 1000, place),
        held(seconds, width, place),
        bundle,
    )


def _gpu_seconds(entry: Mapping[str, Any], place: int) -> float:
    """Return the GPU-seconds of ``resourceSecondsMap``, in either of YARN's forms."""
    amounts = entry.get("resourceSecondsMap") or {}
    if isinstance(amounts, dict) and isinstance(amounts.get("entry"), list):
        pairs = (one for one in amounts["entry"] if isinstance(one, dict))
        amounts = {one.get("key"): one.get("value") for one in pairs}
    value = amounts.get("yarn.io/gpu", 0) if isinstance(amounts, dict) else 0
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return _number({"yarn.io/gpu": value}, "yarn.io/gpu", place)


def _number(entry: Mapping[str, Any], key: str, place: int) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError(f"application {place}: {key} is a number, not {str(value)[:40]}")
    if not abs(value) <= LARGEST:
        raise TraceError(f"application {place}: {key} is a number up to {LARGEST}")
    return float(value)

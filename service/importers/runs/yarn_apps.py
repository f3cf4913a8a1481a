"""Finished applications of YARN: the ResourceManager's or the timeline's ``apps``, JSON.

``/ws/v1/cluster/apps?states=FINISHED`` has totals alone: what an application held, over its length,
is its width throughout. A request from such a history is a rectangle.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from service.importers.lines import LARGEST, Omissions, TraceError
from service.importers.runs.finished_run import (
    FinishedRun,
    RunHistory,
    began,
    containers,
    held,
)


def read_yarn_apps(document: Mapping[str, Any]) -> RunHistory:
    """Read the applications that succeeded, each as its mean width.

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
        start = float(launch)  # from here on it held containers
    cores, mebibytes = _number(entry, "vcoreSeconds", place), _number(entry, "memorySeconds", place)
    seconds = (end - start) / 1000
    if seconds <= 0 or cores <= 0:
        return None
    most = ceil(cores / seconds - 1e-9)
    total = {
        "cpu": 1000 * most,
        "memory": most * ceil(mebibytes / cores),  # what a core had, for each of them
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
    """Return the GPU-seconds of ``resourceSecondsMap``, in either form that YARN writes it."""
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

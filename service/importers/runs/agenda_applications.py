"""Finished applications of an Agenda server: ``GET /v1/applications``, or a file of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rdl.resources import Resources
from service.importers.lines import Omissions, TraceError
from service.importers.runs.finished_run import FinishedRun, RunHistory, began, containers, held


def read_applications(document: Mapping[str, Any]) -> RunHistory:
    """Read the applications that completed: all their components from begin to end.

    Raises
    ------
    TraceError
        If no entry is what the server lists.
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
            f"application {place}: this is not what the server lists ({error})"
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
    """Return the instant that the server's seconds count from."""
    try:
        submitted = datetime.fromisoformat(entry["submitted_at"])
    except ValueError as error:
        raise TraceError(
            f"application {place}: submitted_at is an instant, not {entry['submitted_at']!r}"
        ) from error
    return float(submitted.timestamp() - entry["submitted"])


def _containers(components: list[Mapping[str, Any]]) -> tuple[int, dict[str, int]]:
    """Return how many containers the components are, and what one is.

    Components alike are containers themselves; others are divided into equal ones.
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

"""Workload files: one request per line, as JSON. A bad line does not affect other lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from planner.cluster.cluster import DEFAULT_QUEUE
from planner.files.errors import FileError, FileProblem, FileProblems
from planner.files.schema import schema_problems
from planner.promise import PromiseLevel, asked_level
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.durations import TimeTextError, read_instant
from rdl.errors import RdlError
from rdl.expressions import Absolute, Offset
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.text_file import TextError, name_form, utf8_of
from rdl.time_grid import seconds_of

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class WorkloadLine:
    """One request as written.

    Attributes
    ----------
    submitted_ms
        Ms from the origin.
    source
        The ``rdl`` value: text, the JSON form, or YARN JSON.
    promise
        The requested promise level; None is the cluster's default.
    line_number
        From 1; 0 for a request that is not from a file.
    recorded
        When the job ran according to its log, (start, end) in ms from the origin.
    """

    id: str
    source: str | Mapping[str, Any]
    tenant: str = DEFAULT_TENANT
    queue: str = DEFAULT_QUEUE
    submitted_ms: int = 0
    weight: float = 1.0
    priority: int = 0
    line_number: int = 0
    promise: PromiseLevel | None = None
    recorded: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Normalize tenant and queue."""
        object.__setattr__(self, "tenant", name_form(self.tenant))
        object.__setattr__(self, "queue", name_form(self.queue))

    def to_json(self) -> dict[str, Any]:
        """Return the form that :func:`read_line` reads."""
        entry: dict[str, Any] = {
            "id": self.id,
            "tenant": self.tenant,
            "queue": self.queue,
            "submitted": seconds_of(self.submitted_ms),
            "rdl": self.source,
            "weight": self.weight,
            "priority": self.priority,
        }
        if self.promise is not None:
            entry["promise"] = self.promise.value
        if self.recorded is not None:
            start, end = map(seconds_of, self.recorded)
            entry["recorded"] = {"start": start, "end": end}
        return entry


class LineError(ValueError):
    """A line that is not a valid request, with all problems as pointers into the line."""

    def __init__(self, problems: Iterable[FileProblem]) -> None:
        self.problems = FileProblems(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        """Return all problems, one per line; built only on demand, since there may be many."""
        return "\n".join(map(str, self.problems))


def read_workload(
    path: str | Path,
    origin: datetime | None = None,
    on_problem: Callable[[FileProblem], None] | None = None,
) -> Iterator[WorkloadLine]:
    """Yield the requests of a workload file, in order.

    Parameters
    ----------
    origin
        The cluster's origin, for submissions written as instants.
    on_problem
        Called with each bad line, which is then left out. Without it, all good lines are yielded
        and a `FileError` with every problem is raised at the end.

    Raises
    ------
    FileError
        See `on_problem`; also if the file is not text.
    OSError
        If the file cannot be opened.
    """
    found: FileProblems = FileProblems()
    report = found.append if on_problem is None else on_problem
    try:
        lines = utf8_of(Path(path).read_bytes()).splitlines()
    except TextError as error:
        raise FileError(str(path), (FileProblem(error.message, fix=error.fix),)) from error
    yield from lines_of(lines, origin, report)
    if found:
        raise FileError(str(path), found)


def lines_of(
    lines: Iterable[bytes | str],
    origin: datetime | None,
    report: Callable[[FileProblem], None],
) -> Iterator[WorkloadLine]:
    """Yield the requests of JSON Lines; ids must be unique, empty lines are skipped."""
    seen: dict[str, int] = {}
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = read_line(_parse_line(raw), number, origin)
        except LineError as error:
            for one in error.problems:
                report(FileProblem(one.message, one.pointer, number, one.fix))
            if error.problems.more:
                report(FileProblem(f"and {error.problems.more:,} more problems", line=number))
            continue
        if line.id in seen:
            message = f"the id {line.id!r} was given on line {seen[line.id]}"
            report(FileProblem(message, "/id", number, "give each request its own id"))
            continue
        seen[line.id] = number
        yield line


def read_line(value: object, number: int = 0, origin: datetime | None = None) -> WorkloadLine:
    """Return one request from its parsed JSON.

    Raises
    ------
    LineError
        With every problem.
    """
    problems = schema_problems(value, "workload")
    if problems:
        raise LineError(problems)
    assert isinstance(value, Mapping)
    return WorkloadLine(
        value["id"],
        value["rdl"],
        value.get("tenant", DEFAULT_TENANT),
        value.get("queue", DEFAULT_QUEUE),
        _submitted_ms(value.get("submitted", 0), origin),
        float(value.get("weight", 1.0)),
        int(value.get("priority", 0)),
        number,
        asked_level(value),
        _recorded_ms(value.get("recorded")),
    )


def _recorded_ms(raw: Mapping[str, float] | None) -> tuple[int, int] | None:
    return None if raw is None else (round(1000 * raw["start"]), round(1000 * raw["end"]))


def _parse_line(raw: bytes | str) -> object:
    try:
        return read_json(raw)
    except JsonTextError as error:
        column = "" if error.at is None else f" at column {error.at[2]}"
        fix = error.fix or "write one JSON object a line"
        raise LineError((FileProblem(f"{error.message}{column}", fix=fix),)) from error


def _submitted_ms(raw: object, origin: datetime | None) -> int:
    try:
        instant = read_instant(raw)
    except TimeTextError as error:
        raise LineError((FileProblem(error.message, "/submitted", fix=error.fix),)) from error
    match instant:
        case Offset(ms=ms):
            return ms
        case Absolute(at=at) if origin is not None:
            ms = round((at - origin).total_seconds() * 1000)
            if ms >= 0:
                return ms
            message = "the submission is before the cluster's origin"
        case Absolute():
            message = "an instant needs a cluster with an origin"
        case _:
            message = "a submission cannot count from itself"
    fix = "write seconds from the origin"
    raise LineError((FileProblem(message, "/submitted", fix=fix),))


#: Most characters of an unreadable source that a refusal keeps.
_KEPT_SOURCE = 2000


def readable(line: WorkloadLine, limits: SourceLimits = DEFAULT_LIMITS) -> str:
    """Return the text of a line for a refusal: canonical if it can be read."""
    from rdl.compile.source import read_source
    from rdl.text.formatter import format_expression

    try:
        text, most = format_expression(read_source(line.source, limits)), limits.max_source
    except RdlError:
        text = line.source if isinstance(line.source, str) else json.dumps(line.source)
        most = _KEPT_SOURCE
    return text if len(text) <= most else f"{text[:_KEPT_SOURCE]}..."

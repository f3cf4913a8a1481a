"""The input of `agenda plan`: a workload file, one request in RDL, or either from standard
input."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from planner.cluster.cluster import DEFAULT_QUEUE, Cluster
from planner.cluster.policy import Quota
from planner.files.errors import FileProblem, FileProblems
from planner.files.workload_file import DEFAULT_TENANT, WorkloadLine, lines_of
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.meaning.request_meaning import names_calendar
from rdl.text_file import TextError, text_of, utf8_of
from rdl.time_grid import duration_text
from service.cli.kit.options import RequestDefaults, question_lines

_STDIN = "-"


def read_raw(file: str | Path) -> bytes:
    """Return the content of a file; ``-`` is standard input."""
    return sys.stdin.buffer.read() if str(file) == _STDIN else Path(file).read_bytes()


def lines_in(
    file: str | Path,
    raw: bytes,
    origin: datetime | None,
    report: Callable[[FileProblem], None],
    defaults: RequestDefaults | None = None,
) -> Iterator[WorkloadLine]:
    """Yield the requests of a file: JSON Lines, or one request as RDL text or RDL JSON.

    Parameters
    ----------
    file, raw
        Its path, ``-`` for standard input; and its content.
    report
        Informed of each bad line, which is then left out.

    Raises
    ------
    RdlError
        For RDL that cannot be read, with every problem and its place.
    """
    name = str(file)
    source = _rdl_in(raw)
    if source is None:
        yield from lines_of(utf8_of(raw).splitlines(), origin, report)
        return
    read_source(source)
    for asked in question_lines(source):
        click.echo(asked, err=True)
    given = defaults or RequestDefaults()
    yield WorkloadLine(
        "request" if name == _STDIN else Path(name).stem,
        source,
        DEFAULT_TENANT if given.tenant is None else given.tenant,
        DEFAULT_QUEUE if given.queue is None else given.queue,
    )


def with_calendar(cluster: Cluster, raw: bytes) -> Cluster:
    """Return the cluster with an origin if a request in a workload names times by the calendar.

    A cluster file without an origin means the coming midnight of its zone. If nothing needs a
    calendar, times stay relative to the origin, and a plan is the same on every day.
    """
    if cluster.origin is not None:
        return cluster
    timed = any(isinstance(one, Quota) and one.needs_origin for one in cluster.policies)
    if timed or (_CALENDAR.search(utf8_of(raw)) is not None and any(map(is_dated, _sources(raw)))):
        return cluster.with_origin(datetime.now(UTC))
    return cluster


#: What every text that names a zone, a date, a time of day or a day of the week has.
_CALENDAR: Final = re.compile(rb"zone|holidays|days|except|\d:\d\d|\d{4}-\d\d")


def _sources(raw: bytes) -> Iterator[object]:
    """Yield the RDL of each request of a workload that may name a calendar, as far as it reads."""
    source = _rdl_in(raw)
    if source is not None:
        yield source
        return
    for line in utf8_of(raw).splitlines():
        if _CALENDAR.search(line) is not None:
            entry = _object(line.decode("utf-8", "replace"))
            yield None if entry is None else entry.get("rdl")


def is_dated(source: object) -> bool:
    """Return whether RDL, as text or JSON, names times by the calendar; not where it is wrong."""
    try:
        return names_calendar(read_source(source))
    except RdlError:
        return False  # reported where it is compiled


def report_lending(cluster: Cluster) -> None:
    """Say on standard error which cohorts lend only near the start: files are planned then."""
    for name, cohort in cluster.cohorts.items():
        ahead = duration_text(cohort.members[0].lend_ms)
        click.echo(
            f"cohort {name}: a plan of files is made at its start, so quotas lend only its first "
            f"{ahead}; a server lends {ahead} ahead of each instant",
            err=True,
        )


def report_lines(workload: str | Path, problems: FileProblems) -> None:
    """Print errors of workload lines to standard error, and the number of further ones."""
    for problem in problems:
        click.echo(f"{workload}: {problem}", err=True)
    if problems.more:
        click.echo(f"{workload}: and {problems.more:,} more", err=True)


def _rdl_in(raw: bytes) -> str | dict[str, Any] | None:
    """Return the one request that a file holds in RDL; None for lines, and what is no text."""
    try:
        text = text_of(raw)
    except TextError:
        return None
    if not text.lstrip().startswith(("{", "[")):
        return text if text.strip() else None
    value = _object(text)
    return value if value is not None and not {"rdl", "id"} & set(value) else None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = read_json(text)
    except JsonTextError:
        return None
    return value if isinstance(value, dict) else None

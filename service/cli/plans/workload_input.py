"""What `agenda plan` plans: a workload file, one request in RDL, or either from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from planner.cluster.cluster import DEFAULT_QUEUE
from planner.files.errors import FileProblem, FileProblems
from planner.files.workload_file import DEFAULT_TENANT, WorkloadLine, lines_of
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.compile.source import read_source
from rdl.text_file import TextError, text_of, utf8_of
from service.cli.plans.request_defaults import RequestDefaults

_STDIN = "-"


def lines_in(
    file: str | Path,
    origin: datetime | None,
    report: Callable[[FileProblem], None],
    defaults: RequestDefaults | None = None,
) -> Iterator[WorkloadLine]:
    """Yield the requests of a file: JSON Lines, or one request as RDL text or RDL JSON.

    Parameters
    ----------
    file
        Its path; ``-`` is standard input.
    report
        Told of each bad line, which is then left out.

    Raises
    ------
    RdlError
        For RDL that cannot be read, with every problem and its place.
    """
    name = str(file)
    raw = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
    source = _rdl_in(raw)
    if source is None:
        yield from lines_of(utf8_of(raw).splitlines(), origin, report)
        return
    read_source(source)
    given = defaults or RequestDefaults()
    yield WorkloadLine(
        "request" if name == _STDIN else Path(name).stem,
        source,
        DEFAULT_TENANT if given.tenant is None else given.tenant,
        DEFAULT_QUEUE if given.queue is None else given.queue,
    )


def report_lines(workload: str | Path, problems: FileProblems) -> None:
    """Print what is wrong with lines of a workload to standard error, and how many more are."""
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

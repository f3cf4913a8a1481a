"""`agenda rdl check`: compile a request and say what it is, or everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR
from service.cli.terminal.options import READABLE, READABLE_OR_STDIN, duration, offset, read_text
from service.cli.terminal.output import JSON, TABLE, format_option, print_json

if TYPE_CHECKING:
    from rdl.compile.context import CompileContext
    from rdl.errors import RdlError
    from rdl.expressions import Expression
    from rdl.work_graph import WorkGraph


@click.group()
def rdl() -> None:
    """Check requests written in RDL."""


@rdl.command()
@click.argument("file", type=READABLE_OR_STDIN)
@click.option(
    "--cluster", type=READABLE, help="Check against the grid and machines of this cluster."
)
@click.option(
    "--step",
    type=duration,
    default="60s",
    show_default=True,
    help="Step of the grid, without --cluster.",
)
@click.option(
    "--horizon",
    type=duration,
    default="24h",
    show_default=True,
    help="Length of the grid, without --cluster.",
)
@click.option(
    "--origin", help="RFC 3339 instant of step 0, without --cluster; needed if FILE has instants."
)
@click.option(
    "--submitted",
    type=offset,
    default="0",
    show_default=True,
    help="When the request is submitted, counted from the origin.",
)
@click.option(
    "--exact-work",
    is_flag=True,
    help="Report work that whole leases cannot give exactly, instead of rounding it up.",
)
@format_option(TABLE, JSON)
@reports_errors
def check(
    file: str,
    cluster: Path | None,
    step: int,
    horizon: int,
    origin: str | None,
    submitted: int,
    exact_work: bool,
    form: str,
) -> int:
    """Compile FILE (RDL text, RDL JSON or YARN JSON; - is standard input) without planning it.

    Prints the canonical text, and notes on numbers that were rounded to the grid. All problems are
    reported at once, each with its place; the exit code is then 1.
    """
    from rdl.errors import RdlError

    text = read_text(file)
    if cluster is None:
        context = _context_of_grid(step, horizon, origin, submitted, exact_work)
    else:
        context = _context_of_cluster(cluster, submitted, exact_work)
    try:
        expression, graph = _compile(text, context)
    except RdlError as error:
        _tell_problems(error, file, form)
        return ERROR
    _tell_expression(expression, graph, form)
    return DONE


def _context_of_grid(
    step_ms: int, horizon_ms: int, origin: str | None, submitted_ms: int, exact_work: bool
) -> CompileContext:
    """Return the context of a grid without machines."""
    from rdl.compile.context import CompileContext
    from rdl.durations import parse_rfc3339
    from rdl.time_grid import TimeGrid

    zero = parse_rfc3339(origin) if origin else None
    grid = TimeGrid(step_ms, max(1, horizon_ms // step_ms), zero)
    return CompileContext(grid, submitted_ms, exact_work=exact_work)


def _context_of_cluster(path: Path, submitted_ms: int, exact_work: bool) -> CompileContext:
    """Return the context of a cluster's grid and machines."""
    from planner.files import read_cluster

    cluster = read_cluster(path)
    return cluster.context(cluster.grid(), submitted_ms, exact_work=exact_work)


def _compile(text: str, context: CompileContext) -> tuple[Expression, WorkGraph]:
    from rdl.compile.compiler import compile_expression
    from rdl.compile.source import read_source

    expression = read_source(text, context.limits)
    # Spans point into RDL text only; problems of JSON carry pointers.
    spans_into = None if text.lstrip().startswith("{") else text
    return expression, compile_expression(expression, context, spans_into)


def _tell_problems(error: RdlError, file: str, form: str) -> None:
    if form == JSON:
        print_json(
            {
                "valid": False,
                "code": error.code,
                "errors": [problem.to_json() for problem in error.problems],
            }
        )
    else:
        count = len(error.problems)
        click.echo(f"{file}: {count} problem{'s' if count > 1 else ''}", err=True)
        click.echo(str(error), err=True)


def _tell_expression(expression: Expression, graph: WorkGraph, form: str) -> None:
    from rdl.codecs.json_codec import to_json
    from rdl.text.formatter import format_expression

    canonical = format_expression(expression)
    if form == JSON:
        print_json(
            {
                "valid": True,
                "canonical": canonical,
                "json": to_json(expression),
                "notes": list(graph.notes),
                "atoms": len(graph.atoms),
            }
        )
        return
    click.echo(canonical)
    for note in graph.notes:
        click.echo(f"note: {note}")

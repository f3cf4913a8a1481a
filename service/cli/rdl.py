"""`agenda rdl`: check, explain and format requests, and print the JSON Schema of RDL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from service.cli.kit.errors import DIFFER, DONE, ERROR, CliError, reports_errors
from service.cli.kit.options import (
    READABLE,
    READABLE_OR_STDIN,
    duration,
    offset,
    question_lines,
    read_text,
)
from service.cli.kit.output import JSON, TABLE, format_option, print_json

if TYPE_CHECKING:
    from rdl.compile.context import CompileContext
    from rdl.errors import RdlError
    from rdl.expressions import Expression
    from rdl.work_graph import WorkGraph


@click.group()
def rdl() -> None:
    """Check and format requests written in RDL."""


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
    help="Length of the grid, without --cluster: 24h, or 5w if FILE names dates, zones or days.",
)
@click.option(
    "--origin",
    help="RFC 3339 instant of step 0, without --cluster; now if FILE names dates or zones.",
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
    help="Report work that is not a whole number of leases as an error instead of rounding it up.",
)
@click.option(
    "--normal",
    is_flag=True,
    help="Print the normal form: nested operators flattened, equal atoms unified.",
)
@format_option(TABLE, JSON)
@reports_errors
def check(
    file: str,
    cluster: Path | None,
    step: int,
    horizon: int | None,
    origin: str | None,
    submitted: int,
    exact_work: bool,
    normal: bool,
    form: str,
) -> int:
    """Compile FILE (RDL text, RDL JSON or YARN JSON; - is standard input) without planning it.

    Prints the canonical text; its meaning: recurrence, first time, length, work and size, in the
    request's own zone; and notes on numbers that were rounded to the grid or
    may have been meant otherwise. All problems are reported at once, each with its place; the exit
    code is then 1.
    """
    from rdl.compile.compiler import compile_expression
    from rdl.compile.source import read_source
    from rdl.errors import RdlError

    text = read_text(file)
    try:
        expression = read_source(text)
        if cluster is None:
            context = _context_of_grid(
                expression, _Grid(step, horizon, origin), submitted, exact_work=exact_work
            )
        else:
            context = _context_of_cluster(expression, cluster, submitted, exact_work=exact_work)
        # Only problems of RDL text have spans; those of JSON have pointers.
        spans_into = None if text.lstrip().startswith("{") else text
        graph = compile_expression(expression, context, spans_into)
    except RdlError as error:
        _tell_problems(error, file, form)
        return ERROR
    graph = replace(graph, notes=(*graph.notes, *_larger_than_all(expression, context)))
    _tell_expression(text, expression, graph, form, normal=normal)
    return DONE


def _larger_than_all(expression: Expression, context: CompileContext) -> Iterator[str]:
    """Yield a note for each atom that exceeds the capacity of all machines together."""
    from rdl.compile.machine_fit import MachineFit
    from rdl.expressions import Atom, children_of

    if isinstance(expression, Atom):
        found = MachineFit.of(context.machines).why_too_many(expression)
        if found is not None:
            message, fix = found
            yield f"no plan can satisfy it: {message}{'' if fix is None else f'; {fix}'}"
    for child in children_of(expression):
        yield from _larger_than_all(child, context)


@rdl.command(name="format")
@click.argument("files", metavar="FILE...", type=READABLE_OR_STDIN, nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit code 8 if a file would change.")
@click.option(
    "--write", is_flag=True, help="Rewrite the files instead of writing to standard output."
)
@reports_errors
def format_(files: tuple[str, ...], check: bool, write: bool) -> int:
    """Lay RDL text out in the one way: indents, blanks and line breaks; comments stay.

    The meaning of the text does not change, and formatting is idempotent.
    """
    from rdl.errors import RdlError
    from rdl.text.layout import lay_out_text
    from rdl.text.parser import parse

    if check and write:
        raise CliError("--check writes nothing: omit it or --write")
    outcome: int = DONE
    for file in files:
        text = read_text(file)
        try:
            parse(text)
        except RdlError as error:
            _tell_problems(error, file, TABLE)
            return ERROR
        laid = lay_out_text(text)
        if check:
            if laid != text:
                click.echo(f"{file}: would be reformatted", err=True)
                outcome = DIFFER
        elif not write or file == "-":
            click.echo(laid, nl=False)
        elif laid != text:
            Path(file).write_text(laid, encoding="utf-8")
    return outcome


@rdl.command()
@reports_errors
def schema() -> int:
    """Print the JSON Schema of RDL written as JSON, for editors and programs."""
    from rdl.codecs.json_schema import json_schema

    print_json(json_schema())
    return DONE


@rdl.command()
@click.argument("file", type=READABLE_OR_STDIN)
@reports_errors
def rrule(file: str) -> int:
    """Write a recurrence as iCalendar: DTSTART, DURATION, RRULE, RDATE and EXDATE.

    The request is one `every` with a zone and an anchor by date; `agenda import rrule` reads the
    lines back.
    """
    from rdl.compile.source import read_source
    from rdl.errors import RdlError
    from rdl.expressions import Every
    from rdl.meaning.icalendar import RuleTextError, write_rule

    try:
        expression = read_source(read_text(file))
        if not isinstance(expression, Every):
            raise CliError(f"{file}: the request is not an every(...)")
        click.echo(write_rule(expression), nl=False)
    except RdlError as error:
        _tell_problems(error, file, TABLE)
        return ERROR
    except RuleTextError as error:
        raise CliError(f"{file}: {error}") from error
    return DONE


#: Length of the grid without a cluster: for durations only, and with a calendar.
_DAY_MS: Final = 86_400_000
_WEEKS_MS: Final = 35 * _DAY_MS
_YEARS_MS: Final = 5 * 365 * _DAY_MS


class _Grid(NamedTuple):
    """The grid given by the options; None where they are absent."""

    step_ms: int
    horizon_ms: int | None
    origin: str | None


def _context_of_grid(
    expression: Expression, asked: _Grid, submitted_ms: int, *, exact_work: bool
) -> CompileContext:
    """Return the context of a grid without machines; it begins now if a calendar is needed."""
    from rdl.compile.context import CompileContext
    from rdl.durations import TimeTextError, parse_rfc3339
    from rdl.meaning.request_meaning import names_calendar, names_months
    from rdl.time_grid import TimeGrid

    dated = names_calendar(expression)
    try:
        zero = parse_rfc3339(asked.origin) if asked.origin else None
    except TimeTextError as error:
        raise CliError(f"--origin: {error}") from error
    if zero is None and dated:
        zero = datetime.now(UTC).replace(second=0, microsecond=0)
    usual_ms = _WEEKS_MS if dated else _DAY_MS
    horizon_ms = asked.horizon_ms or (_YEARS_MS if names_months(expression) else usual_ms)
    grid = TimeGrid(asked.step_ms, max(1, horizon_ms // asked.step_ms), zero)
    return CompileContext(grid, submitted_ms, exact_work=exact_work)


def _context_of_cluster(
    expression: Expression, path: Path, submitted_ms: int, *, exact_work: bool
) -> CompileContext:
    """Return the context of a cluster's grid and machines.

    If a calendar is needed and the file has no origin, it begins at the next midnight.
    """
    from planner.files import read_cluster
    from rdl.meaning.request_meaning import names_calendar

    cluster = read_cluster(path)
    if names_calendar(expression):
        cluster = cluster.with_origin(datetime.now(UTC))
    return cluster.context(cluster.grid(), submitted_ms, exact_work=exact_work)


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


def _tell_expression(
    text: str, expression: Expression, graph: WorkGraph, form: str, *, normal: bool
) -> None:
    from rdl.codecs.json_codec import to_json
    from rdl.meaning.normal_form import normal_form
    from rdl.meaning.questions import questions
    from rdl.meaning.request_meaning import meaning_json, meaning_lines, meaning_of
    from rdl.text.formatter import format_expression

    canonical, meaning = format_expression(expression), meaning_of(graph)
    is_json = text.lstrip().startswith("{")
    simplest = format_expression(normal_form(graph.expression)) if normal else None
    asked = questions(json.loads(text) if is_json else text)
    if form == JSON:
        print_json(
            {
                "valid": True,
                "canonical": canonical,
                **({} if simplest is None else {"normal": simplest}),
                "json": to_json(expression),
                "notes": list(graph.notes),
                "questions": [one.to_json() for one in asked],
                "atoms": len(graph.atoms),
                "meaning": None if meaning is None else meaning_json(meaning, graph.grid),
            }
        )
        return
    click.echo(canonical if simplest is None else simplest)
    lines = [("promise", "none: best effort")]
    if meaning is not None:
        lines = meaning_lines(meaning, graph.grid)
    for what, said in lines:
        click.echo(f"{what:<8}{said}")
    for note in graph.notes:
        click.echo(f"note: {note}")
    for line in question_lines(json.loads(text) if is_json else text):
        click.echo(line)

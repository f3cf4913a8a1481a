"""Shared options of commands, and the parsers of their values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from zoneinfo import ZoneInfo

import click

from planner.agents import DEFAULT_AGENT
from service.cli.kit.errors import CliError, as_cli_error
from service.sentences import AGENTS

if TYPE_CHECKING:
    from service.jobs.executors import Workers

#: How many of each unit are in an hour.
_UNITS_AN_HOUR = {"s": 3600.0, "m": 60.0, "min": 60.0, "h": 1.0, "d": 1 / 24}

#: A decorator that adds an option.
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(name: str, kind: Callable[..., Any], *options: Option) -> Option:
    """Return options that a command gets as one argument.

    Parameters
    ----------
    name
        Name of the command's parameter.
    kind
        Called with the values of the options as keyword arguments: a dataclass or a function. Its
        errors are reported to the user.
    options
        The options, in the order of the help.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_group(*args: Any, **values: Any) -> Any:
            own = {option: values.pop(option) for option in own_names}
            with as_cli_error():
                values[name] = kind(**own)
            return function(*args, **values)

        decorated: Any = with_group
        before = len(getattr(function, "__click_params__", ()))
        for option in reversed(options):
            decorated = option(decorated)
        own_names = [one.name for one in decorated.__click_params__[before:]]
        return cast("Callable[..., Any]", decorated)

    return decorate


READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
READABLE_OR_STDIN = click.Path(exists=True, dir_okay=False, allow_dash=True)


class _WritablePath(click.Path):
    """A file to write; a missing folder is reported before hours of work, not after."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r}", param, ctx)
        return path


WRITABLE = _WritablePath(dir_okay=False, path_type=Path)


class FiniteRange(click.FloatRange):
    """A range of numbers that excludes NaN, which comparisons accept."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


#: A duration with its units, such as 2h or 1h30m; a bare number is seconds from the origin.
_DURATION: Final = re.compile(r"(\d+(\.\d+)?[wdhms])+", re.ASCII)


def from_now(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a duration as one from now, not from the server's origin."""
    return f"+{value}" if value is not None and _DURATION.fullmatch(value) else value


def before_now(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a duration as one before now, for lists of past entries."""
    return f"-{value}" if value is not None and _DURATION.fullmatch(value) else value


def seed_option(of: str) -> Option:
    """Return the option for the seed of random choices; `of` names them."""
    seed = click.IntRange(min=0)
    return click.option("--seed", type=seed, default=0, show_default=True, help=f"Seed of {of}.")


def duration(value: str | int) -> int:
    """Return seconds or ``90s 15m 4h 2d 1w 1h30m`` in milliseconds; not zero.

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    milliseconds = offset(value)
    if milliseconds < 1:
        raise click.BadParameter(f"{value} is not a positive duration")
    return milliseconds


def arrival_rate(value: str | float) -> float:
    """Return jobs per hour for ``3000/h``, ``50/m``, ``0.8/s`` or ``72000/d``.

    Raises
    ------
    click.BadParameter
        For anything else, or for a negative rate.
    """
    if isinstance(value, float):
        return value
    number, _, unit = value.partition("/")
    try:
        rate = float(number) * _UNITS_AN_HOUR[unit.strip()]
    except (ValueError, KeyError) as error:
        raise click.BadParameter(f"{value!r}: write jobs over a time, such as 3000/h") from error
    if not 0 <= rate < float("inf"):
        raise click.BadParameter(f"{value!r}: write a number of jobs from 0")
    return rate


def offset(value: str | int) -> int:
    """Return a duration in milliseconds; zero is allowed.

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    from rdl.durations import TimeTextError, parse_duration

    if isinstance(value, int):
        return value
    try:
        return parse_duration(value.strip())
    except TimeTextError as error:
        raise click.BadParameter(str(error)) from error


def span(value: str | tuple[float, float]) -> tuple[float, float]:
    """Return the bounds of ``low..high``, zero or more each; a single number is both bounds.

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    if isinstance(value, tuple):
        return value
    low, dots, high = value.partition("..")
    try:
        pair = float(low), float(high if dots else low)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a range; write 0.1..3") from error
    if not 0 <= pair[0] <= pair[1] < float("inf"):
        raise click.BadParameter(
            f"{value!r}: the first number is zero or more, the second not smaller"
        )
    return pair


def finite(value: str | float) -> float:
    """Return a finite number.

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    try:
        number = float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number") from error
    if not isfinite(number):
        raise click.BadParameter(f"{value!r} is not a finite number")
    return number


def names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct words separated by commas.

    Raises
    ------
    click.BadParameter
        If one is empty or given twice.
    """
    if isinstance(value, tuple):
        return value
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise click.BadParameter(f"{value!r}: write names separated by commas")
    if len(set(words)) < len(words):
        raise click.BadParameter(f"{value!r}: give each name once")
    return words


def known_name(kind: str, value: str, known: Collection[str]) -> str:
    """Return a value if it is one of the known names of a kind.

    Raises
    ------
    click.BadParameter
        If it is not; the message suggests the nearest name or lists all.
    """
    if value in known:
        return value
    from rdl.errors import nearest

    advice = nearest(value, known) or ", ".join(known)
    raise click.BadParameter(f"there is no {kind} {value!r}; write {advice}")


def agent_name(value: str) -> str:
    """Return the name of an agent.

    Raises
    ------
    click.BadParameter
        If there is no such agent; the message suggests the nearest name or lists all.
    """
    from planner.agents import AGENT_NAMES

    return known_name("agent", value, AGENT_NAMES)


def agent_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct names of agents separated by commas.

    Raises
    ------
    click.BadParameter
        If one is unknown, empty or given twice.
    """
    return tuple(agent_name(name) for name in names(value))


def zone_named(value: str | ZoneInfo) -> ZoneInfo:
    """Return a time zone by its name.

    Raises
    ------
    click.BadParameter
        If there is no such zone; the message says how to correct it.
    """
    from rdl.operators import check_zone

    if isinstance(value, ZoneInfo):
        return value
    try:
        return ZoneInfo(check_zone(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def read_text(file: str) -> str:
    """Return the text of a file, without a byte order mark; ``-`` is standard input.

    Raises
    ------
    CliError
        If it is not text.
    """
    from rdl.text_file import TextError, text_of

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return text_of(raw)
    except TextError as error:
        raise CliError(f"{file}: {error}") from error


def dask_option(what: str) -> Option:
    """Return the option for the address of a Dask scheduler that runs `what`."""
    return click.option(
        "--dask",
        metavar="ADDRESS",
        help=f"Run {what} on the Dask cluster whose scheduler is there, such as "
        "tcp://10.0.0.5:8786.",
    )


@dataclass(frozen=True, slots=True)
class WorkerChoice:
    """Where tasks run: in worker processes, on a Dask cluster, or in this process by default.

    Raises
    ------
    click.UsageError
        If both are given.
    """

    workers: int | None = None
    dask: str | None = None

    def __post_init__(self) -> None:
        """Refuse both together."""
        if self.workers is not None and self.dask is not None:
            raise click.UsageError("give either --workers or --dask")

    @contextmanager
    def open(self) -> Iterator[Workers | None]:
        """Provide the workers; None for this process.

        Raises
        ------
        service.jobs.executors.WorkerError
            If the cluster cannot be used.
        """
        from service.jobs.dask_workers import workers_of

        with workers_of(self.workers or 1, self.dask) as workers:
            yield workers


def worker_options(what: str) -> Option:
    """Return `--workers` and `--dask` as a `WorkerChoice`; `what` names one task."""
    return option_group(
        "where",
        WorkerChoice,
        click.option(
            "--workers",
            type=click.IntRange(1, 1024),
            metavar="N",
            help=f"Run {what} in one of N processes.  [default: 1, this process]",
        ),
        dask_option(what),
    )


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Tenant and queue of a request that names neither, such as one in plain RDL."""

    tenant: str | None = None
    queue: str | None = None


def question_lines(source: str | Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each number of a request that may be a mistake.

    Parameters
    ----------
    source
        RDL as text, which is quoted at the place; or as JSON.
    """
    from rdl.errors import render
    from rdl.meaning.questions import questions

    text = source if isinstance(source, str) else None
    for one in questions(source):
        yield f"question: {render((one,), text)}"


#: Name of an agent -> what it does best, and its options.
AGENT_LINES: Final = {one.name: f"{one.says} {one.options}".rstrip() for one in AGENTS}

#: The same as text for the end of a command's help.
AGENTS_HELP: Final = "\b\nAgents (docs/planning.md):\n" + "\n".join(
    f"  {name:<17}{line}" for name, line in AGENT_LINES.items()
)


def complete_agent(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the agents that start with a word, or with the last of several words with commas."""
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in AGENT_LINES if name.startswith(begun)]


def planning_agent(text: str) -> Option:
    """Return the option `--agent` of commands that plan a workload of files."""
    return click.option(
        "--agent",
        type=agent_name,
        shell_complete=complete_agent,
        metavar="AGENT",
        default=DEFAULT_AGENT,
        show_default=True,
        help=text,
    )


def _read_mounts(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return folders that are there, each with `:ro` where images may only read it."""
    for value in values:
        path = value.removesuffix(":ro")
        if not path.startswith("/") or ":" in path or not Path(path).is_dir():
            raise click.BadParameter(f"{value!r} is no folder of this host, such as /data:ro")
    return values


#: Folders that an executor shows to images.
mount_option = click.option(
    "--mount",
    "mounts",
    multiple=True,
    metavar="FOLDER[:ro]",
    callback=_read_mounts,
    help="Folder of this host that every image sees; may be repeated.",
)

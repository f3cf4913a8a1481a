"""What an experiment is: its name, effort, points, tables, claims and panels."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bench.papers.points import PointsFile, point_of
from bench.papers.spread import Figure, figures_over_seeds
from service.cli.kit.errors import CliError
from service.cli.kit.progress import CommandProgress
from service.jobs.executors import Link, Workers, answers_of
from service.pictures.experiments import ExperimentPanel, PanelSeries

if TYPE_CHECKING:
    from bench.papers.cluster.records import JobRecord, JobsFile
    from lp.lotes.pipeline import Mode

HOLDS: Final = "holds"
DOES_NOT_HOLD: Final = "does not hold"

#: How far from a number that is claimed a figure may be, as a share of the number.
_NEAR: Final = 0.1
_ABOUT: Final = 0.25

_CLAIM: Final = re.compile(
    r"(?:(about|near|above|below|at most|at least) )?(\d+(?:\.\d+)?)(?: within (\d+(?:\.\d+)?))?"
)


def verdict(figure: float, claimed: str) -> str | None:
    """Return whether a figure is as claimed; None if the words say no number.

    Parameters
    ----------
    claimed
        A number (met within 10 %), ``about`` or ``near`` one (25 %, and 0.25 of zero), ``above``,
        ``below``, ``at most`` or ``at least`` one, or ``stable``, which is a ratio near 1. A number
        ``within`` another has a tolerance of its own: a tenth of a ratio would be half of a gain.
    """
    found = _CLAIM.fullmatch("near 1" if claimed == "stable" else claimed)
    if found is None:
        return None
    number, own = float(found[2]), found[3]
    met = _is_met(figure, found[1], number) if own is None else abs(figure - number) <= float(own)
    return HOLDS if met else DOES_NOT_HOLD


def _is_met(figure: float, word: str | None, number: float) -> bool:
    if word == "above":
        return figure > number
    if word == "below":
        return figure < number
    if word == "at least":
        return figure >= number
    if word == "at most":
        return figure <= number
    if word is None:
        return abs(figure - number) <= _NEAR * number
    return abs(figure - number) <= _ABOUT * (number or 1.0)


#: Heads a column of standard deviations over seeds.
SPREAD: Final = "spread"


@dataclass(frozen=True, slots=True)
class Table:
    """One table of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        """Return a table without the columns of spread that hold none: one seed has none."""
        kept = [
            column
            for column, name in enumerate(header)
            if name != SPREAD or any(row[column] is not None for row in rows)
        ]
        return cls([header[at] for at in kept], [[row[at] for at in kept] for row in rows])


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """What an experiment found, in every form it is shown in.

    Attributes
    ----------
    document
        Plain JSON.
    """

    document: dict[str, Any]
    tables: Sequence[Table]
    panels: Sequence[ExperimentPanel]


def spreads(values: Iterable[float | None]) -> Sequence[float]:
    """Return the spreads to draw; nothing if there is none."""
    known = list(values)
    found = [value for value in known if value is not None]
    return found if len(found) == len(known) else ()


def spread_header(names: Iterable[str]) -> list[str]:
    """Return the heads of figures: a column of means and one of spreads for each name."""
    return [head for name in names for head in (name, SPREAD)]


def figure_cells(figures: Mapping[str, Figure], keys: Iterable[str]) -> list[float | None]:
    """Return mean and spread of each figure, under `spread_header`; dashes for one that is none."""
    chosen = [figures.get(key) for key in keys]
    pairs = [(None, None) if one is None else (one.mean, one.deviation) for one in chosen]
    return [value for pair in pairs for value in pair]


def claims_table(name: str, figures: Mapping[str, Figure], claims: Mapping[str, str]) -> Table:
    """Return figures beside the words on them, and whether those hold; `name` heads the first."""
    rows = [
        (key, one.mean, one.deviation, claims[key] or None, verdict(one.mean, claims[key]))
        for key, one in figures.items()
    ]
    return Table.of((name, "mean", SPREAD, "claimed", "it"), rows)


def figure_series(name: str, x: Sequence[float | str], figures: Iterable[Figure]) -> PanelSeries:
    """Return one line, or one bar of each group: means with their spreads."""
    known = list(figures)
    return PanelSeries(
        name, x, [one.mean for one in known], spreads(one.deviation for one in known)
    )


TRACES: Final = "AGENDA_TRACES"
#: Who can be compared on drawn workloads.
POLICIES: Final = ("lotes", "tetris", "tetris-without-times")


@dataclass(frozen=True, slots=True)
class DrawnSizes:
    """Sizes that an experiment on drawn workloads is requested; None for its own.

    Attributes
    ----------
    policies
        Names of `POLICIES`.
    mode
        How LoTES plans.
    """

    machines: int | None = None
    hours: float | None = None
    policies: tuple[str, ...] | None = None
    mode: Mode | None = None

    @property
    def any(self) -> bool:
        """Whether something was requested."""
        return self != DrawnSizes()


@dataclass(frozen=True, slots=True)
class PartRun:
    """What a part with jobs returns: its answer, and the records to write."""

    answer: Any
    records: list[JobRecord]


@dataclass(frozen=True, slots=True)
class ExperimentEffort:
    """How much is run.

    Attributes
    ----------
    seeds
        1 to so many; None for the experiment's own.
    small
        Sizes that take seconds; the figures then show the form, not the claim.
    run
        Told how far the work is; says when to stop.
    jobs
        Where every job of every run is written, or None.
    sizes
        What `--machines-per-configuration`, `--hours`, `--policies` and `--mode` say.
    workers
        Where the points run; None for this process.
    points
        Where the answers of parts are kept, and taken over from, or None.
    """

    seeds: int | None
    small: bool
    run: CommandProgress
    jobs: JobsFile | None = None
    sizes: DrawnSizes = DrawnSizes()
    workers: Workers | None = None
    points: PointsFile | None = None

    def seeds_or(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """Return the seeds to run."""
        if self.seeds is not None:
            return tuple(range(1, self.seeds + 1))
        return own[:1] if self.small else own

    def parts(self, parts: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run parts until asked to stop; return the answers of the first ones, in order.

        Parameters
        ----------
        parts
            Functions of modules with their arguments, which say all that the answer depends on.

        Raises
        ------
        CliError
            If not even the first is done.
        """
        self.run.show()
        points = [point_of(part) for part in parts]
        known = {} if self.points is None else self.points.done
        found = {index: known[point] for index, point in enumerate(points) if point in known}
        if found:
            click.echo(f"{len(found)} of {len(parts)} points were done before", err=True)
        left = [index for index in range(len(parts)) if index not in found]
        self.run.progress(len(found), len(parts))
        work = [(points[index], partial(_run_part, parts[index])) for index in left]
        for number, (answer,) in answers_of(work, self.workers, Link(self.run.stop)):
            found[left[number]] = answer
            if self.points is not None:
                self.points.keep(points[left[number]], answer)
            self.run.progress(len(found), len(parts))
        return self._first_of(found, len(parts))

    def _first_of(self, found: dict[int, Any], most: int) -> list[Any]:
        """Return answers up to the first that is missing; write the jobs that come with them."""
        answers: list[Any] = []
        while len(answers) in found:
            answers.append(found[len(answers)])
        if len(found) < most:
            click.echo(f"stopped after {len(found)} of {most} parts", err=True)
        if not answers:
            raise CliError("it was stopped before the first part was done")
        runs = [one for one in answers if isinstance(one, PartRun)]
        if self.jobs is not None:
            for one in runs:
                self.jobs.write(one.records)
        return [one.answer for one in runs] or answers

    def whole(self, work: Callable[[], Any]) -> Any:
        """Run work that cannot be cut; a terminal shows that it continues."""
        self.run.show()
        return work()


def _run_part(part: Callable[[], Any], _: Link) -> tuple[Any]:
    """Run a part to its end, stop or not."""
    return (part(),)


def google_folder(name: str) -> Path:
    """Return the folder of Google's 2011 trace.

    Raises
    ------
    CliError
        If AGENDA_TRACES is not set or has no such folder.
    """
    root = os.environ.get(TRACES, "")
    if not root:
        raise CliError(
            f"{name} runs on Google's 2011 trace: set {TRACES} to the folder that holds google2011/"
        )
    folder = Path(root) / "google2011"
    if not folder.is_dir():
        raise CliError(f"{TRACES} is {root}: there is no folder google2011 in it")
    return folder


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Inside, a trace that cannot be read becomes a `CliError` that names its folder."""
    try:
        yield
    except (ValueError, EOFError, zlib.error) as error:
        raise CliError(f"{folder}: {error}") from error
    except OSError as error:  # gzip names no file
        if error.filename is not None:
            raise
        raise CliError(f"{folder}: {error}") from error


Point = TypeVar("Point")


def over_seeds(
    effort: ExperimentEffort,
    points: Sequence[Point],
    run: Callable[[Point, int], Mapping[str, float]],
    own: tuple[int, ...] = (1, 2, 3),
) -> dict[Point, Mapping[str, Figure]]:
    """Return the figures of each point over the seeds; of a stopped run, those that are whole.

    Parameters
    ----------
    run
        Function of a module, of a point and a seed.
    own
        Seeds to run where none are requested.

    Raises
    ------
    CliError
        If not even the first is done.
    """
    seeds = effort.seeds_or(own)
    found = effort.parts([partial(run, point, seed) for point in points for seed in seeds])
    each = len(seeds)
    whole = len(found) // each
    return {
        point: figures_over_seeds(found[place * each : (place + 1) * each])
        for place, point in enumerate(points[:whole])
    }

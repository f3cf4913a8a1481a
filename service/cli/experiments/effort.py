"""How much of an experiment is run, and where its traces and its records are."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service.cli.experiments.points_file import PointsFile, point_of
from service.cli.terminal.errors import CliError
from service.cli.terminal.progress import CommandProgress
from service.tasks.inline_pool import InlinePool
from service.tasks.task_pool import PoolTask, PoolWatch, TaskLink, TaskPool

if TYPE_CHECKING:
    from dispatch.simulation.records import JobRecord, JobsFile
    from lp.lotes.pipeline import Mode

TRACES: Final = "AGENDA_TRACES"
#: Who can be compared on drawn workloads.
POLICIES: Final = ("lotes", "tetris", "tetris-without-times")


@dataclass(frozen=True, slots=True)
class DrawnSizes:
    """Sizes that an experiment on drawn workloads is asked for; None for its own.

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
        """Whether something was asked for."""
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
    pool
        Where the parts run.
    points
        Where the answers of parts are kept, and taken over from, or None.
    """

    seeds: int | None
    small: bool
    run: CommandProgress
    jobs: JobsFile | None = None
    sizes: DrawnSizes = DrawnSizes()
    pool: TaskPool = field(default_factory=InlinePool)
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
        tasks = [PoolTask(points[index], partial(_part_of, parts[index])) for index in left]
        self.run.progress(len(found), len(parts))
        for number, answer in self.pool.run(tasks, PoolWatch(self.run.stop)):
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
        """Run work that cannot be cut; a terminal shows that it goes on."""
        self.run.show()
        return work()


def _part_of(part: Callable[[], Any], link: TaskLink) -> Any:
    """Run one part; it does not look at whether to stop."""
    return part()


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

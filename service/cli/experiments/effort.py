"""How much of an experiment is run, and where its traces and its records are."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from service.cli.terminal.errors import CliError
from service.cli.terminal.progress import CommandProgress

if TYPE_CHECKING:
    from dispatch.simulation.records import JobRecord, JobsFile

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
    mode: Literal["priced", "paper"] | None = None

    @property
    def any(self) -> bool:
        """Whether something was asked for."""
        return self != DrawnSizes()


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
    """

    seeds: int | None
    small: bool
    run: CommandProgress
    jobs: JobsFile | None = None
    sizes: DrawnSizes = DrawnSizes()

    def seeds_or(self, own: tuple[int, ...]) -> tuple[int, ...]:
        """Return the seeds to run."""
        if self.seeds is not None:
            return tuple(range(1, self.seeds + 1))
        return own[:1] if self.small else own

    def parts(self, parts: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run parts in order until asked to stop; at least one."""
        done: list[Any] = []
        self.run.show()
        for part in parts:
            self.run.progress(len(done), len(parts))
            done.append(part())
            if self.run.stop() and len(done) < len(parts):
                click.echo(f"stopped after {len(done)} of {len(parts)} parts", err=True)
                break
        return done

    def keeps(
        self, records_of: Callable[[Any, str], list[JobRecord]]
    ) -> Callable[[str, Any], None] | None:
        """Return what writes the jobs of a run, or None where nobody asked for them."""
        file = self.jobs
        if file is None:
            return None
        return lambda name, run: file.write(records_of(run, name))

    def whole(self, work: Callable[[], Any]) -> Any:
        """Run work that cannot be cut; a terminal shows that it goes on."""
        self.run.show()
        return work()


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

"""Options that say where heavy work runs: `--workers` and `--dask`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from service.cli.terminal.options import Option

if TYPE_CHECKING:
    from service.tasks.task_pool import TaskPool


def dask_option(what: str) -> Option:
    """Return the option that names a Dask scheduler; `what` runs there."""
    return click.option(
        "--dask",
        metavar="ADDRESS",
        help=f"Run {what} on the Dask cluster whose scheduler is there, such as "
        "tcp://10.0.0.5:8786.",
    )


def pool_options(what: str) -> Option:
    """Return a decorator that adds `--workers` and `--dask`; `what` is one task."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        workers = click.option(
            "--workers",
            type=click.IntRange(1, 1024),
            metavar="N",
            help=f"Run {what} in one of N processes.  [default: 1, this process]",
        )
        return workers(dask_option(what)(function))

    return decorate


@contextmanager
def task_pool(workers: int | None, dask: str | None) -> Iterator[TaskPool]:
    """Inside, the pool that the options ask for.

    Raises
    ------
    click.UsageError
        If both are given.
    service.tasks.task_pool.TaskPoolError
        If the cluster cannot be used.
    """
    from service.tasks.open_pool import open_pool

    if workers is not None and dask is not None:
        raise click.UsageError("give either --workers or --dask")
    with open_pool(workers or 1, dask) as pool:
        yield pool

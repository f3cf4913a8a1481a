"""Which pool runs tasks: this process, worker processes, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.tasks.task_pool import TaskPool


@contextmanager
def open_pool(workers: int = 1, dask: str | None = None) -> Iterator[TaskPool]:
    """Inside, a pool: that of the Dask scheduler at an address, or so many local processes.

    Parameters
    ----------
    workers
        1: this process.

    Raises
    ------
    service.tasks.task_pool.TaskPoolError
        As `service.tasks.dask_pool.DaskPool`.
    """
    pool = _pool(workers, dask)
    try:
        yield pool
    finally:
        pool.close()


def _pool(workers: int, dask: str | None) -> TaskPool:
    if dask is not None:
        from service.tasks.dask_pool import DaskPool

        return DaskPool(dask)
    if workers > 1:
        from service.tasks.process_pool import ProcessPool

        return ProcessPool(workers)
    from service.tasks.inline_pool import InlinePool

    return InlinePool()

"""DaskPool: tasks on the workers of a Dask cluster.

The scheduler begins a task again elsewhere when its worker dies. What a task keeps lies at the
scheduler as long as the run lasts.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from service.jobs.pool import InlinePool, PoolTask, PoolWatch, ProcessPool, TaskPool, TaskPoolError
from service.jobs.software import require_same_software, software_here

if TYPE_CHECKING:
    from distributed import Client, Future


def require_one_thread(workers: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse workers that would run several tasks in one process.

    Raises
    ------
    TaskPoolError
        Naming one.
    """
    for where, facts in workers.items():
        if facts.get("nthreads", 1) > 1:
            raise TaskPoolError(
                f"the Dask worker {where} has {facts['nthreads']} threads; start workers with "
                "--nthreads 1, and several on a host with --nworkers"
            )


#: Seconds that a scheduler has for answering, and a cluster for having a worker.
_CONNECT_S: Final = 5.0

#: Seconds between two looks at whether to stop.
_LOOK_S: Final = 0.2

#: Seconds of silence after which the scheduler is given up; Dask's client tries again meanwhile.
_SILENCE_S: Final = 20.0


class DaskPool:
    """Runs tasks on a Dask cluster.

    Parameters
    ----------
    address
        Of its scheduler, such as ``tcp://10.0.0.5:8786``; ``tls://`` with Dask's own settings.

    Raises
    ------
    TaskPoolError
        If nothing answers there, no worker is there, or a worker cannot run Agenda's tasks.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._software = software_here()
        self._client = connected_client(address)
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield each task's answer as it ends, see `TaskPool`."""
        run = _DaskRun(self._client, self._address, tasks, watch or PoolWatch())
        try:
            run.submit(self._software)
            yield from run.answers()
        finally:
            run.end()

    def close(self) -> None:
        """Leave the cluster; it ends tasks of this client that look at whether to stop."""
        self._client.close(timeout=_CONNECT_S)

    def _check_workers(self) -> None:
        until = time.monotonic() + _CONNECT_S
        while not (workers := self._client.scheduler_info(n_workers=-1)["workers"]):
            if time.monotonic() > until:
                raise TaskPoolError(
                    f"the Dask scheduler at {self._address} has no worker; start one: "
                    f"dask worker {self._address} --nthreads 1"
                )
            time.sleep(_LOOK_S)
        require_one_thread(workers)
        found = self._client.run(software_here, on_error="return")
        for where, theirs in found.items():
            require_same_software(self._software, theirs, where)


class _DaskRun:
    """The tasks of one run."""

    def __init__(
        self, client: Client, address: str, tasks: Sequence[PoolTask], watch: PoolWatch
    ) -> None:
        from distributed import Event

        self._client, self._address, self._tasks, self._watch = client, address, tasks, watch
        self._session = f"agenda-{uuid.uuid4().hex}"
        self._heard: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        self._event = Event(self._session, client=client)
        self._futures: list[Future] = []

    def submit(self, software: dict[str, str]) -> None:
        """Hand all tasks to the scheduler, the first the most urgent."""
        from service.jobs.dask_worker import DaskOrder, carry_out_order

        self._client.subscribe_topic(self._session, lambda event: self._heard.put(event[1]))
        for index, task in enumerate(self._tasks):
            work, kept = pickle.dumps(task.work), pickle.dumps(task.kept)
            order = DaskOrder(self._session, index, work, kept, software)
            future = self._client.submit(
                carry_out_order,
                order,
                key=f"{self._session}-{index}",
                priority=-index,
                pure=False,
            )
            self._futures.append(future)
            future.add_done_callback(lambda done, at=index: self._heard.put((at, "done", done)))

    def answers(self) -> Iterator[tuple[int, Any]]:
        """Yield answers as they come, and hand on what is told."""
        left, stopped, silent_since = len(self._tasks), False, None
        while left:
            if not stopped and self._watch.stop():
                with contextlib.suppress(OSError):  # lost on the way: again at the next look
                    self._event.set()
                    stopped = True
            silent_since = self._silence(silent_since)
            try:
                index, what, body = self._heard.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if what == "told":
                self._watch.told(index, pickle.loads(body))
            elif what == "kept":
                self._hand_on_kept(index)
            else:
                left -= 1
                answer = self._answer(index, body)
                if answer is not None:
                    yield index, pickle.loads(answer)

    def end(self) -> None:
        """Drop the tasks and what they have kept."""
        from distributed import Variable

        with contextlib.suppress(Exception):  # the cluster may be gone: nothing is left then
            self._client.unsubscribe_topic(self._session)
            self._client.cancel([one for one in self._futures if not one.done()], force=True)
            for index in range(len(self._tasks)):
                Variable(f"{self._session}-{index}", client=self._client).delete()
            self._event.clear()

    def _silence(self, since: float | None) -> float | None:
        """Return since when the scheduler is away; None while it answers.

        Raises
        ------
        TaskPoolError
            If it has been for too long.
        """
        if self._client.status == "running":
            return None
        now = time.monotonic()
        if self._client.status == "closed" or (since is not None and now > since + _SILENCE_S):
            raise self._gone()
        return since or now

    def _gone(self) -> TaskPoolError:
        return TaskPoolError(f"the Dask scheduler at {self._address} does not answer any more")

    def _hand_on_kept(self, index: int) -> None:
        from distributed import Variable

        shelf = Variable(f"{self._session}-{index}", client=self._client)
        with contextlib.suppress(OSError):  # the scheduler is away: `_silence` says for how long
            self._watch.kept(index, pickle.loads(shelf.get(timeout=_CONNECT_S)))

    def _answer(self, index: int, future: Future) -> bytes | None:
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise self._gone()
        try:
            answer: bytes | None = future.result()
        except KilledWorker as error:
            name = self._tasks[index].name
            raise TaskPoolError(
                f"{name}: every Dask worker that began it ended ({error.last_worker.address} was "
                "the last); see that worker's log"
            ) from error
        return answer


def connected_client(address: str) -> Client:
    """Return a client of the scheduler at `address`.

    Raises
    ------
    TaskPoolError
        As `require_dask`, or if nothing answers there.
    """
    require_dask(address)
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise TaskPoolError(
            f"no Dask scheduler answers at {address} within {_CONNECT_S:g} s"
        ) from error


def require_dask(address: str) -> None:
    """Check what can be known of a cluster without asking it.

    Raises
    ------
    TaskPoolError
        If the package is missing, or the address is none.
    """
    try:
        import_module("distributed")
    except ModuleNotFoundError as error:
        raise TaskPoolError(
            "a Dask cluster needs the package distributed: pip install 'cluster-agenda[dask]'"
        ) from error
    if not address.startswith(("tcp://", "tls://")) or not address.rpartition(":")[2].isdigit():
        raise TaskPoolError(
            f"{address!r} is no address of a Dask scheduler; write tcp://HOST:PORT or "
            "tls://HOST:PORT"
        )


@contextmanager
def open_pool(workers: int = 1, dask: str | None = None) -> Iterator[TaskPool]:
    """Inside, a pool: that of the Dask scheduler at an address, or so many local processes.

    Parameters
    ----------
    workers
        1: this process.

    Raises
    ------
    service.jobs.pool.TaskPoolError
        As `DaskPool`.
    """
    pool = _pool(workers, dask)
    try:
        yield pool
    finally:
        pool.close()


def _pool(workers: int, dask: str | None) -> TaskPool:
    if dask is not None:
        return DaskPool(dask)
    if workers > 1:
        return ProcessPool(workers)
    return InlinePool()

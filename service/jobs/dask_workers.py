"""Tasks on the workers of a Dask cluster.

The scheduler restarts a task elsewhere when its worker dies. The state of a task is stored at the
scheduler as long as its caller is connected.
"""

from __future__ import annotations

import pickle
import platform
import queue
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from service.jobs.executors import Link, ProcessWorkers, Task, WorkerError, Workers

if TYPE_CHECKING:
    from distributed import Client

#: Packages that a result depends on; Agenda first.
_PACKAGES: Final = ("cluster-agenda", "numpy", "numba", "scipy", "ortools", "highspy")

#: Most concurrently submitted tasks.
_MOST_SENT: Final = 512

#: Seconds to wait for the scheduler's answer, and for a worker.
CONNECT_S: Final = 5.0

#: Seconds between two checks for a worker, and of a task for a stop.
_LOOK_S: Final = 0.2
_STOP_LOOK_S: Final = 0.5

#: Seconds of silence after which the scheduler counts as lost; Dask's client retries meanwhile.
_SILENCE_S: Final = 20.0

#: Seconds to wait for the stored state of an earlier run.
_KEPT_S: Final = 0.2

#: States of a task on its worker in which its caller no longer wants it.
_UNWANTED: Final = ("cancelled", "released", "forgotten")


@contextmanager
def workers_of(count: int = 1, dask: str | None = None) -> Iterator[Workers | None]:
    """Provide `count` processes or the Dask cluster at an address; None for this process.

    Raises
    ------
    WorkerError
        As `DaskWorkers`.
    """
    if dask is None and count == 1:
        yield None
        return
    workers = ProcessWorkers(count) if dask is None else DaskWorkers(dask)
    try:
        yield workers
    finally:
        workers.close()


def require_dask(address: str) -> None:
    """Check a cluster's address and package without connecting.

    Raises
    ------
    WorkerError
        If the package is missing, or the address is malformed.
    """
    if find_spec("distributed") is None:
        raise WorkerError(
            "a Dask cluster needs the package distributed: pip install 'cluster-agenda[dask]'"
        )
    if not address.startswith(("tcp://", "tls://")) or not address.rpartition(":")[2].isdigit():
        raise WorkerError(
            f"{address!r} is not the address of a Dask scheduler; write tcp://HOST:PORT or "
            "tls://HOST:PORT"
        )


def software_here() -> dict[str, str]:
    """Return the versions of the software in this process."""
    return {"python": platform.python_version(), **{one: _version(one) for one in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def require_same_software(ours: Mapping[str, str], theirs: Any, where: str) -> None:
    """Refuse a worker with other versions: results are only reproducible with the same versions.

    Parameters
    ----------
    theirs
        Result of `software_here` there, or its exception.

    Raises
    ------
    WorkerError
        With the worker, and both versions of the differing package.
    """
    if isinstance(theirs, ModuleNotFoundError):
        raise WorkerError(
            f"the Dask worker {where} has no Agenda: install cluster-agenda[dask] "
            f"{ours['cluster-agenda']} there"
        )
    if isinstance(theirs, BaseException):
        raise WorkerError(f"the Dask worker {where}: {type(theirs).__name__}: {theirs}")
    for name, here in ours.items():
        there = theirs.get(name, "none")
        if there != here:
            raise WorkerError(
                f"the Dask worker {where} has {name} {there}, here it is {here}; results are the "
                "same only with the same versions: install those there"
            )


def require_one_thread(workers: Mapping[str, int]) -> None:
    """Refuse workers (threads by address) that would run several tasks in one process.

    Raises
    ------
    WorkerError
        Naming one.
    """
    for where, threads in workers.items():
        if threads > 1:
            raise WorkerError(
                f"the Dask worker {where} has {threads} threads; start workers with "
                "--nthreads 1, and several on a host with --nworkers"
            )


class DaskWorkers:
    """The workers of a Dask cluster.

    Parameters
    ----------
    address
        Address of its scheduler, such as ``tcp://10.0.0.5:8786``; ``tls://`` with Dask's own
        settings.

    Raises
    ------
    WorkerError
        As `require_dask`, and if the scheduler does not answer, there is no worker, or a worker
        cannot run Agenda's tasks.
    """

    most = _MOST_SENT

    def __init__(self, address: str) -> None:
        require_dask(address)
        from distributed import Client, Event

        self._address, self._software = address, software_here()
        try:
            self._client: Client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise WorkerError(
                f"no Dask scheduler answers at {address} within {CONNECT_S:g} s"
            ) from error
        #: Name of the topic of their news, the event that stops them, and their stored state.
        self._session = f"agenda-{uuid.uuid4().hex}"
        self._event = Event(self._session, client=self._client)
        self._news: queue.SimpleQueue[tuple[str, bytes | None]] = queue.SimpleQueue()
        self._stored: set[str] = set()
        self._away_since: float | None = None
        self._stop_due = False
        try:
            self._check_workers()
            self._client.subscribe_topic(self._session, lambda event: self._news.put(event[1]))
        except BaseException:
            self._client.close(timeout=CONNECT_S)
            raise
        self._executor = self._client.get_executor(pure=False)

    def _check_workers(self) -> None:
        until = time.monotonic() + CONNECT_S
        while not (threads := self._client.nthreads()):
            if time.monotonic() > until:
                raise WorkerError(
                    f"the Dask scheduler at {self._address} has no worker; start one: "
                    f"dask worker {self._address} --nthreads 1"
                )
            time.sleep(_LOOK_S)
        require_one_thread(threads)
        for where, theirs in self._client.run(software_here, on_error="return").items():
            require_same_software(self._software, theirs, where)

    def submit(self, task: Task, *, first: bool) -> Future[Any]:
        """Submit a task to the scheduler, which runs them in order."""
        own = (self._session, uuid.uuid4().hex)
        future: Future[Any] = self._executor.submit(
            _carry_out, own, pickle.dumps(task), self._software, first=first
        )
        return future

    def answer(self, future: Future[Any], name: str) -> Any:
        """Return the answer of a task that has ended, None for one that was not run."""
        from distributed import KilledWorker

        try:
            return pickle.loads(future.result())
        except CancelledError as error:
            raise self._gone() from error
        except KilledWorker as error:
            raise WorkerError(
                f"{name}: every Dask worker that started it died (last: "
                f"{error.last_worker.address}); see that worker's log"
            ) from error

    def attend(self, link: Link) -> None:
        """Forward news and stored states in order, and check that the scheduler is alive."""
        self._look_for_scheduler()
        self._send_stop()
        with suppress(queue.Empty):
            while True:
                stored, news = self._news.get_nowait()
                if news is not None:
                    link.tell(pickle.loads(news))
                    continue
                self._stored.add(stored)
                with suppress(OSError):  # the scheduler is unavailable: this is checked above
                    link.keep(pickle.loads(_variable(stored, self._client).get(CONNECT_S)))

    def _look_for_scheduler(self) -> None:
        if self._client.status == "running":
            self._away_since = None
            return
        now = time.monotonic()
        self._away_since = self._away_since or now
        if self._client.status == "closed" or now > self._away_since + _SILENCE_S:
            raise self._gone()

    def _gone(self) -> WorkerError:
        return WorkerError(f"the Dask scheduler at {self._address} no longer answers")

    def stop(self) -> None:
        """Ask the tasks to end."""
        self._stop_due = True
        self._send_stop()

    def _send_stop(self) -> None:
        if self._stop_due:
            with suppress(OSError):  # the scheduler is unavailable: retried at the next check
                self._event.set()
                self._stop_due = False

    def close(self) -> None:
        """Disconnect, which ends this client's tasks, and delete their stored state."""
        with suppress(Exception):  # the cluster may be gone, and its data with it
            self._client.unsubscribe_topic(self._session)
            for name in self._stored:
                _variable(name, self._client).delete()
            self._event.clear()
        self._client.close(timeout=CONNECT_S)


def _variable(name: str, client: Client) -> Any:
    from distributed import Variable

    return Variable(name, client=client)


def _carry_out(
    own: tuple[str, str], task: bytes, software: dict[str, str], *, first: bool
) -> bytes:
    """Run a task on a Dask worker; return its pickled answer, None after a stop.

    Parameters
    ----------
    own
        Names of the session and of the task's stored state.

    Raises
    ------
    WorkerError
        If this worker has other versions.
    """
    from distributed import Event, get_client, get_worker

    worker, client = get_worker(), get_client()
    require_same_software(software, software_here(), worker.address)
    session, stored = own
    event, variable = Event(session, client=client), _variable(stored, client)
    key = worker.get_current_task()
    stopped, over = threading.Event(), threading.Event()

    def is_wanted() -> bool:
        known = worker.state.tasks.get(key)
        try:
            return known is not None and known.state not in _UNWANTED and not event.is_set()
        except Exception:  # noqa: BLE001 - any exception of Dask for a lost scheduler
            return False

    def look() -> None:
        while is_wanted() and not over.wait(_STOP_LOOK_S):
            pass
        stopped.set()

    def tell(news: Any) -> None:
        worker.log_event(session, (stored, pickle.dumps(news)))

    def keep(state: Any) -> None:
        # The scheduler keeps every event, but only the last value of a variable.
        variable.set(pickle.dumps(state))
        worker.log_event(session, (stored, None))

    if event.is_set() and not first:
        return pickle.dumps(None)
    try:
        kept = pickle.loads(variable.get(_KEPT_S))
    except TimeoutError:
        kept = None
    threading.Thread(target=look, name="stop", daemon=True).start()
    try:
        return pickle.dumps(pickle.loads(task)(Link(stopped.is_set, tell, keep, kept)))
    finally:
        over.set()

"""run: serve one port with several processes of the application, by gunicorn."""

from __future__ import annotations

import ctypes
import errno
import gc
import logging
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.clock import Clock, FileClock, SystemClock
from service.config import MULTIPROCESS_DIRECTORY, ConfigError, ServiceConfig, require_access
from service.host.processes import end_with_parent, listener_on, passing_folder
from service.host.shared_counts import SharedCounts

if TYPE_CHECKING:
    from flask import Flask

    from service.commits.replica import Offer
    from service.store import Store


#: Files of a process apart from its clients: the database, listeners and pipes.
_FILES_BESIDE = 256

#: Seconds for which a thread may hold the interpreter while others wait for it.
_SWITCH_S = 0.0005

#: Seconds that a start waits for a used port, and between two checks.
_PORT_WAIT_S = 3.0
_PORT_PAUSE_S = 0.05

#: Seconds between two attempts of a worker to open the database, or to run an executor.
_NEXT_ATTEMPT_S = 1.0

#: The longest pause before an executor is started again, which a life of so long makes short.
_LONGEST_PAUSE_S = 30.0

#: Exit codes of an executor after which a further one would end alike, and what they mean.
_IN_VAIN = {2: "it does not know an option", 5: "its token is none, wrong or without the right"}

#: Seconds for which a server still answers after its planner has ended; and the exit code of a
#: worker that makes gunicorn end all workers and itself.
_LAST_WORDS_S = 2.0
_HALT = 3

logger = logging.getLogger("agenda.service")

_NAME: Final = "clients"

#: Cells in the row of a process: there is only one name.
_CELLS: Final = 8

#: Thresholds of the garbage collector's generations.
_COLLECT_AFTER: Final = (50_000, 20, 100)

#: Parameter of mallopt(3) for the most arenas of a process, and its value for a server.
_ARENA_MAX: Final = -8
_ARENAS: Final = 2

#: Seconds between two releases of free memory.
_TRIM_S: Final = 60.0


def run(config: ServiceConfig) -> None:
    """Serve until stopped (SIGTERM, SIGINT); does not return.

    The tables are created and the first cluster is stored before any worker starts, so that errors
    are reported here.

    Raises
    ------
    ConfigError
        For an address that others can reach without a token or that is in use, a database that
        cannot be opened, or one without a cluster or a required admin's token.
    FileError
        If the cluster file cannot be read.
    """
    gc.disable()  # nearly all objects of a start stay
    share_arenas()
    require_access(config)
    require_port(config)
    _require_slurm(config)
    _require_kubernetes(config)
    with _metrics_directory():
        from service.commits.replica import open_replica, read_offer
        from service.logs import begin_log

        begin_log(config.log_format)
        allow_files(config.connections + config.streams + _FILES_BESIDE)
        offer = read_offer(config)
        store = open_replica(config, _given_clock(config) or SystemClock(), offer).store
        try:
            _require_admin(config, store)
        finally:
            store.close()
        _load_code(config)
        gc.freeze()  # so that a collection in a worker does not touch shared pages
        gc.enable()
        if config.local is not None:
            _start_executor(config, config.local)
        _application(config, offer).run()


def _given_clock(config: ServiceConfig) -> Clock | None:
    """Return the clock of a demonstration, or None."""
    return None if config.clock_file is None else FileClock(config.clock_file)


def _require_slurm(config: ServiceConfig) -> None:
    """Refuse a Slurm that lacks required capabilities; one that does not answer is awaited later.

    Raises
    ------
    ConfigError
        With everything that is missing.
    """
    if config.slurm is None:
        return
    from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
    from dispatch.backends.slurm.control.settings import read_settings
    from dispatch.backends.slurm.control.slurm import open_slurm

    try:
        open_slurm(read_settings(config.slurm))
    except SlurmAwayError as error:
        sys.stderr.write(f"agenda: waiting for Slurm, which does not answer yet: {error}\n")
    except SlurmError as error:
        raise ConfigError(str(error)) from error


def _require_kubernetes(config: ServiceConfig) -> None:
    """Refuse a Kubernetes without access; one that does not answer is awaited later.

    Raises
    ------
    ConfigError
        With everything that is not allowed.
    """
    if config.kubernetes is None:
        return
    from dispatch.backends.kubernetes.api import (
        KubernetesApi,
        KubernetesAwayError,
        KubernetesError,
    )
    from dispatch.backends.kubernetes.cluster import JOBS, NODES, PODS

    refused: list[str] = []
    try:
        api = KubernetesApi(config.kubernetes)
        for path in (JOBS, PODS, NODES):
            try:
                api.call("GET", path, None, {"limit": 1})
            except KubernetesAwayError:
                raise
            except KubernetesError as error:
                if error.status >= 500:
                    raise
                refused.append(str(error))
    except KubernetesError as error:
        if isinstance(error, KubernetesAwayError) or error.status >= 500:
            sys.stderr.write(
                f"agenda: waiting for Kubernetes, which does not answer yet: {error}\n"
            )
        else:
            refused.append(str(error))
    if refused:
        raise ConfigError("; ".join(refused))


def _start_executor(config: ServiceConfig, state: Path) -> None:
    """Run an executor of all machines on this host; it ends with this process.

    It waits until the server answers. If calls need a token, it reads that of an operator from
    AGENDA_TOKEN or AGENDA_TOKEN_FILE, as every client does.
    """
    command = [sys.executable, "-m", "service.cli.main", "executor", "--all"]
    # Half of a lease is for stopping runs, and half for the next report.
    longest_s = max(config.lease_s / 2 - 1, 0)
    every_s = max(min(1.0, config.tick_s or 1.0, longest_s), 0.05)
    options = {
        "--every": f"{every_s:g}",
        "--stop-grace": f"{min(5.0, longest_s):g}",
        "--server": f"http://{_address(config)}",
        "--id": "local",
        "--state": str(state),
    }
    mounts = [("--mount", one) for one in config.mounts]
    words = [word for option in (*options.items(), *mounts) for word in option]

    # In a process of its own: the server's own one reaps every child that ends, and forks workers,
    # which would inherit the pipes with which a thread starts a process.
    server = os.getpid()
    if os.fork():
        return
    try:
        end_with_parent(server)
        _keep_running([*command, "--parent", str(os.getpid()), *words])
    except KeyboardInterrupt:
        pass
    except BaseException:
        logger.exception("the executor of --local is not started again")
    finally:
        os._exit(0)


def _keep_running(command: Sequence[str]) -> None:
    """Run an executor, again whenever it ends; after a short life with longer pauses.

    It returns when the executor is given wrong options or is not allowed to call.
    """
    pause_s = _NEXT_ATTEMPT_S
    while True:
        began_s = time.monotonic()
        code = subprocess.call(command, stdin=subprocess.DEVNULL)
        if code in _IN_VAIN:
            logger.error("the executor of --local is not started again: %s", _IN_VAIN[code])
            return
        if time.monotonic() - began_s > _LONGEST_PAUSE_S:
            pause_s = _NEXT_ATTEMPT_S
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _load_code(config: ServiceConfig) -> None:
    """Import shared code once, so that further workers, or one after a crash, are ready sooner."""
    if config.workers > 1:
        import service.app  # noqa: F401


@contextmanager
def _metrics_directory() -> Iterator[None]:
    """Provide a directory in which processes share their metrics while they run.

    It is read when prometheus_client is imported, so it is set before any such import.
    """
    with passing_folder("agenda-metrics-") as directory:
        os.environ[MULTIPROCESS_DIRECTORY] = str(directory)
        try:
            yield
        finally:
            os.environ.pop(MULTIPROCESS_DIRECTORY, None)


def _require_admin(config: ServiceConfig, store: Store) -> None:
    """Refuse a start without a valid admin token, after which no token could be created.

    Raises
    ------
    ConfigError
        With the command that creates one.
    """
    if config.auth == "token" and not store.tokens.has_admin(SystemClock().now_ms()):
        raise ConfigError(
            "this database has no valid token of an admin; create one: "
            "agenda token create NAME --role admin --database URL"
        )


def require_port(config: ServiceConfig) -> None:
    """Refuse an address that cannot be listened on, before anything is written.

    A used one is awaited for a moment: a killed server releases it when its workers have ended.

    Raises
    ------
    ConfigError
        With the reason, and advice.
    """
    until = time.monotonic() + _PORT_WAIT_S
    while (error := _port_error(config)) is not None:
        if error.errno == errno.EADDRINUSE and time.monotonic() < until:
            time.sleep(_PORT_PAUSE_S)
            continue
        who = listener_on(config.port) or "who listens there"
        advice = {
            errno.EADDRINUSE: f"stop {who}, or choose another port with --port",
            errno.EACCES: "choose a port above 1023 with --port",
        }.get(error.errno or 0, "try --host 127.0.0.1")
        own = isinstance(error, socket.gaierror)  # it has its own numbers and texts
        why = error.strerror if own else os.strerror(error.errno or 0)
        raise ConfigError(
            f"cannot listen on {_address(config)}: {str(why).lower()}; {advice}"
        ) from error


def _port_error(config: ServiceConfig) -> OSError | None:
    """Return why an address cannot be listened on now, or None."""
    host = config.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, config.port), family=family).close()
    except OSError as error:
        return error
    return None


def _address(config: ServiceConfig) -> str:
    host = config.host.strip("[]")
    return f"[{host}]:{config.port}" if ":" in host else f"{host}:{config.port}"


def _application(config: ServiceConfig, offer: Offer | None) -> Any:
    from gunicorn.app.base import BaseApplication

    from service.access.rate_limit import RateLimit
    from service.host.precedence import TurnPrecedence
    from service.host.shared_counts import SharedCounts

    # Created here, because workers are forked from this process. During a reload there are old and
    # new ones.
    given, rates = config, RateLimit(config.rate)
    waiting = SharedCounts(2 * config.workers + 1)
    clients = ClientShare(config.workers)

    class GunicornServer(BaseApplication):  # type: ignore[misc]
        """Gunicorn's view of the service: settings, and an application per worker."""

        #: For the worker, which reads requests before there is an application.
        config = given

        #: For all workers: the number of clients of each.
        share = clients

        #: For a worker: held during its planner's turns, once it has one.
        precedence = TurnPrecedence()

        def load_config(self) -> None:
            """Set gunicorn's settings."""
            for name, value in _settings(config).items():
                self.cfg.set(name, value)

        def load(self) -> PendingApplication:
            """Return the application of a new worker."""
            gc.disable()  # until the Plan is replayed
            _keep_memory_small()
            # After disk writes the planner thread must not wait for a full interpreter slice of
            # every thread that reads a request.
            sys.setswitchinterval(_SWITCH_S)
            return PendingApplication(self._open)

        def _open(self) -> Flask:
            from service.app import create_app
            from service.runtime import open_runtime

            clock = _given_clock(config)
            runtime = open_runtime(config, clock, settle_memory, waiting, _end_server, offer)
            self.precedence = runtime.planner.precedence
            return create_app(config, runtime, rates)

    return GunicornServer()


class PendingApplication:
    """The application of a worker, which may have to wait for its database.

    The server's first process has checked the settings, so an error here is temporary: until it is
    resolved, calls are answered 503, and the other workers are not affected.

    Parameters
    ----------
    open_
        Returns the application, or raises an error if it cannot be opened now.
    """

    def __init__(self, open_: Callable[[], Flask]) -> None:
        self._open = open_
        self._app: Flask | None = None
        self._closed = threading.Event()
        self._attempts = threading.Lock()
        self._why = ""
        if not self._attempt():
            threading.Thread(target=self._insist, name="agenda-opening", daemon=True).start()

    def __call__(self, environ: Any, start_response: Any) -> Any:
        """Answer a request."""
        return self.wsgi_app(environ, start_response)

    def wsgi_app(self, environ: Any, start_response: Any) -> Any:
        """Answer a request; the name that Flask and the worker use."""
        if self._app is not None:
            return self._app(environ, start_response)
        from service.problems import ProblemDocument
        from service.response import Response, problem_response

        if environ.get("PATH_INFO") == "/healthz":
            response = Response(200, {"status": "alive"})
        else:
            detail = "this process waits for its database; the server's log says why"
            document = ProblemDocument("unavailable", detail, headers={"Retry-After": "1"})
            response = problem_response(document)
        body = response.payload()
        headers = {"Content-Type": response.media, **response.headers}
        headers["Content-Length"] = str(len(body))
        phrase = HTTPStatus(response.status).phrase
        start_response(f"{response.status} {phrase}", list(headers.items()))
        return [body]

    def close(self) -> None:
        """Store a snapshot, if there is a Plan yet, and close the database."""
        self._closed.set()
        with self._attempts:
            if self._app is not None:
                from service.app import runtime_of

                runtime_of(self._app).close()

    def _attempt(self) -> bool:
        with self._attempts:
            if self._closed.is_set():
                return True
            try:
                self._app = self._open()
            except Exception as error:  # noqa: BLE001 - any error may be temporary
                why = " ".join(str(error).split())
                if why != self._why:
                    logger.warning("a worker cannot start and tries again: %s", why)
                self._why = why
            return self._app is not None

    def _insist(self) -> None:
        while not self._closed.wait(_NEXT_ATTEMPT_S) and not self._attempt():
            pass


def _end_server() -> None:
    """End the whole server from a worker: a supervisor restarts it."""
    time.sleep(_LAST_WORDS_S)
    os._exit(_HALT)


def _settings(config: ServiceConfig) -> dict[str, Any]:
    from service.logs import gunicorn_logging

    lines = {"logconfig_dict": gunicorn_logging()} if config.log_format == "json" else {}
    return {
        **lines,
        "bind": _address(config),
        "workers": config.workers,
        "threads": config.threads,
        "worker_class": "service.connections.gunicorn_worker.ProblemWorker",
        "limit_request_line": 8190,
        "post_fork": _on_fork,
        "worker_exit": _on_worker_exit,
        "child_exit": _on_child_exit,
        "timeout": 120,
        "graceful_timeout": 30,
        "keepalive": 75,
        "control_socket_disable": True,
        "proc_name": "agenda",
    }


def _on_fork(_server: Any, worker: Any) -> None:
    end_with_parent(worker.ppid)


def allow_files(needed: int) -> None:
    """Raise the limit of open files to `needed`, or as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _on_worker_exit(_server: Any, worker: Any) -> None:
    """Store a snapshot when a worker stops normally."""
    app = getattr(worker, "wsgi", None)
    if app is not None:
        app.close()


def _on_child_exit(_server: Any, worker: Any) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


class ClientShare:
    """Number of clients of each process of a server, for processes forked from its creator.

    The kernel gives a new client to the process that wakes first. Clients keep their connections,
    so that a process with most of them would work while the others are idle.

    Parameters
    ----------
    processes
        Number of processes that serve one port.
    """

    def __init__(self, processes: int) -> None:
        self._others = processes - 1
        self._counts = SharedCounts(2 * processes + 1, _CELLS)
        self._told = 0

    def tell(self, clients: int) -> None:
        """Publish the number of clients of this process."""
        if self._others and clients != self._told:
            self._counts.put(_NAME, clients)
            self._told = clients

    def is_ahead(self, clients: int) -> bool:
        """Return whether `clients` of this process is more than the others' average."""
        if not self._others or not clients:
            return False
        return clients * self._others > self._counts.of_others(_NAME)


def share_arenas() -> None:
    """Let all threads allocate from two arenas of the C library, if it is glibc.

    By default each thread has its own arena, up to eight per core, and free memory in one arena
    cannot be used by threads of another: a process with sixteen threads would grow for hours by
    unused memory.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, _ARENAS)


def settle_memory() -> None:
    """Exclude loaded objects from garbage collection, and run it less often.

    A collection visits every object: with a Plan of 100,000 reservations and a batch of thousands
    of requests it would pause repeatedly for a tenth of a second. Nearly everything here is
    freed by reference counts immediately; there are few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    gc.enable()


def _keep_memory_small() -> None:
    """Return free memory to the system once a minute from now on, if the C library is glibc.

    Commits, snapshots and long answers leave holes between live objects, whose pages the library
    would otherwise keep.
    """
    with suppress(OSError, AttributeError):
        trim = ctypes.CDLL("libc.so.6").malloc_trim
        threading.Thread(target=_trim, args=(trim,), name="agenda-memory", daemon=True).start()


def _trim(trim: ctypes._NamedFuncPointer) -> None:
    while True:
        time.sleep(_TRIM_S)
        trim(0)

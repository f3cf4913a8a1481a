"""run: several processes of the application behind one port, by gunicorn."""

from __future__ import annotations

import errno
import gc
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from service.clock import Clock, FileClock, SystemClock
from service.config import MULTIPROCESS_DIRECTORY, ConfigError, ServiceConfig, require_access
from service.host.memory import keep_memory_small, settle_memory, share_arenas
from service.host.processes import end_with_parent, listener_on
from service.host.temporary_folders import passing_folder

if TYPE_CHECKING:
    from flask import Flask

    from service.commits.precedence import TurnPrecedence
    from service.store import Store

#: Files that a process opens besides its clients: the database's, its listeners, its pipes.
_FILES_BESIDE = 256

#: Seconds a thread may keep the interpreter while others wait for it.
_SWITCH_S = 0.0005

#: Seconds that a start waits for a port that is taken, and between two looks.
_PORT_WAIT_S = 3.0
_PORT_PAUSE_S = 0.05


def run(config: ServiceConfig) -> None:
    """Serve until told to stop (SIGTERM, SIGINT); does not return.

    The database is migrated, and the first cluster kept, before any worker starts, so that what
    cannot work fails here with a message.

    Raises
    ------
    ConfigError
        For an address that others can reach without a token or that is taken, a database that
        cannot be opened, or one without a cluster, or without an admin's token where one is needed.
    FileError
        If the cluster file cannot be read.
    """
    gc.disable()  # nearly all that a start makes stays
    share_arenas()
    require_access(config)
    require_port(config)
    _require_slurm(config)
    with _metrics_directory():
        from service.logs import begin_log
        from service.replication.replica import open_replica

        begin_log(config.log_format)
        allow_files(config.connections + config.streams + _FILES_BESIDE)
        store = open_replica(config, _given_clock(config) or SystemClock()).store
        try:
            _require_admin(config, store)
        finally:
            store.close()
        _load_code(config)
        gc.freeze()  # a collection in a worker leaves the pages that it shares with others alone
        gc.enable()
        _application(config).run()


def _given_clock(config: ServiceConfig) -> Clock | None:
    """Return the clock that a demonstration is told, or None."""
    return None if config.clock_file is None else FileClock(config.clock_file)


def _require_slurm(config: ServiceConfig) -> None:
    """Refuse a Slurm that cannot do what is needed; one that does not answer is waited for later.

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
        sys.stderr.write(f"agenda: Slurm does not answer yet; it is waited for: {error}\n")
    except SlurmError as error:
        raise ConfigError(str(error)) from error


def _load_code(config: ServiceConfig) -> None:
    """Import once what workers share: a second one, or one after a crash, is ready sooner."""
    if config.workers > 1:
        import service.app  # noqa: F401


@contextmanager
def _metrics_directory() -> Iterator[None]:
    """Name a directory in which processes share their figures, for as long as they do.

    It is read when prometheus_client is imported, so it is named before anything imports that.
    """
    with passing_folder("agenda-metrics-") as directory:
        os.environ[MULTIPROCESS_DIRECTORY] = str(directory)
        try:
            yield
        finally:
            os.environ.pop(MULTIPROCESS_DIRECTORY, None)


def _require_admin(config: ServiceConfig, store: Store) -> None:
    """Refuse a start after which nobody could create a token.

    Raises
    ------
    ConfigError
        Saying what creates one.
    """
    if config.auth == "token" and not store.tokens.has_admin(SystemClock().now_ms()):
        raise ConfigError(
            "this database has no token of an admin that is good now; create one: "
            "agenda token create NAME --role admin --database URL"
        )


def require_port(config: ServiceConfig) -> None:
    """Refuse an address that cannot be listened on, before anything is written.

    One that is taken is waited for a little: a server that was killed leaves it when its workers
    are gone.

    Raises
    ------
    ConfigError
        Saying why, and what may help.
    """
    until = time.monotonic() + _PORT_WAIT_S
    while (error := _port_error(config)) is not None:
        if error.errno == errno.EADDRINUSE and time.monotonic() < until:
            time.sleep(_PORT_PAUSE_S)
            continue
        who = listener_on(config.port) or "who listens there"
        advice = {
            errno.EADDRINUSE: f"stop {who}, or name another with --port",
            errno.EACCES: "name a port above 1023 with --port",
        }.get(error.errno or 0, "try --host 127.0.0.1")
        own = isinstance(error, socket.gaierror)  # numbers of its own, words with them
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


def _application(config: ServiceConfig) -> Any:
    from gunicorn.app.base import BaseApplication

    from service.access.rate_limit import RateLimit
    from service.connections.client_share import ClientShare
    from service.planning.shared_counts import SharedCounts

    # Made here: workers are forked from this one. A reload has old and new ones for a while.
    given, rates = config, RateLimit(config.rate)
    waiting = SharedCounts(2 * config.workers + 1)
    clients = ClientShare(config.workers)

    class GunicornServer(BaseApplication):  # type: ignore[misc]
        """Gunicorn's view of the service: settings, and an application a worker."""

        #: For the worker, which reads requests before there is an application.
        config = given

        #: For all workers: how many clients each has.
        share = clients

        #: Of a worker that is loaded: held in its planner's turns.
        precedence: TurnPrecedence

        def load_config(self) -> None:
            """Hand the settings over."""
            for name, value in _settings(config).items():
                self.cfg.set(name, value)

        def load(self) -> Flask:
            """Return the application of a new worker."""
            from service.app import create_app
            from service.runtime import open_runtime

            gc.disable()  # until the Plan is replayed
            keep_memory_small()
            # The planner thread comes back from the disk and must not wait behind a whole
            # interpreter slice of every thread that reads a request.
            sys.setswitchinterval(_SWITCH_S)
            clock = _given_clock(config)
            runtime = open_runtime(config, clock, settle_memory, waiting)
            self.precedence = runtime.planner.precedence
            return create_app(config, runtime, rates)

    return GunicornServer()


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
    """Let this process open so many files, or as many as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _on_worker_exit(_server: Any, worker: Any) -> None:
    """Keep a snapshot when a worker stops in peace."""
    app = getattr(worker, "wsgi", None)
    if app is not None:
        from service.app import runtime_of

        runtime_of(app).close()


def _on_child_exit(_server: Any, worker: Any) -> None:
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]

"""`agenda executor`: run components of applications as processes of this machine."""

from __future__ import annotations

import fcntl
import json
import shutil
import signal
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final
from uuid import uuid4

import click

from dispatch.backends.run_records import MOST_PIECES, STREAMS
from service.cli import executor_supervisor as supervisor
from service.cli.executor_runs import RunDirectory, RunLimits, find_engine
from service.cli.kit.errors import CliError, reports_errors
from service.cli.kit.options import FiniteRange, mount_option
from service.cli.kit.server import NoAnswerError, Server, ServerReply, client_options, entry_path
from service.host.processes import end_with_parent

#: The number of directories of ended runs that are kept for inspection.
_KEPT: Final = 200

#: How much earlier a run counts as lost here than on the server, including its supervisor's
#: polling interval, seconds.
_PAUSE_S: Final = 0.5 + 2 * supervisor.LOOK_S

#: Pause of a server's own executor after a refusal, seconds.
_RETRY_S: Final = 5.0

#: Pause between two looks at which machines the cluster has, seconds.
_MACHINES_S: Final = 10.0

_EXECUTORS: Final = "/v1/executors"


class ExecutorAgent:
    """The executor of one machine, or of several that this one simulates.

    Parameters
    ----------
    server
        The server at which it registers.
    name
        Name of the executor.
    machines
        Machines of the cluster that it runs components on; None: all, also those of later.
    state
        Directory of its state.
    limits
        How the requested resources of runs are enforced.
    every_s
        Pause between two reports, seconds.
    address
        Name or address of this host, for components on other hosts; empty: `name`.

    Raises
    ------
    CliError
        If another executor uses the directory, or its file system has no hard links.
    """

    def __init__(
        self,
        server: Server,
        name: str,
        machines: Sequence[str] | None,
        state: Path,
        limits: RunLimits,
        every_s: float,
        address: str = "",
    ) -> None:
        self._server = server
        self._path = entry_path(_EXECUTORS, name)
        self._has_all = machines is None
        self._machines = list(machines or ())
        self._look_s = 0.0
        self._limits = limits
        self._every_s = every_s
        self._address = address or name
        self._runs_at = state / "runs"
        self._lease = state / "lease"
        self._over = state / "over"
        for folder in (self._runs_at, self._over):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = (state / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CliError(f"another executor uses {state}; give each one its own") from error
        _require_hard_links(state)
        self._instance = _kept_instance(state / "instance")
        found = sorted(one for one in self._runs_at.iterdir() if (one / "run.json").exists())
        self._runs = {one.name: RunDirectory(one) for one in found}
        self._installation = _Installation(state / "installation", busy=bool(found))
        self._number: int | None = None  # of the newest answer; None before the first
        self._is_due = True  # whether it has to register
        self._logs = SentLogs(server, f"{self._path}/logs", self._instance)
        self._silent = ""

    def register(self) -> bool:
        """Register the machines; return whether the server accepted them.

        Settings that do not fit the server's lease are refused first, so that they change nothing
        on the server.

        If a server of another installation answers at the address, such as one that was started by
        mistake, the executor treats its own server as unavailable.

        Raises
        ------
        CliError
            If the settings leave no time between two reports, or with the reason for which the
            server refuses.
        """
        reply = self._server.call("GET", _EXECUTORS)
        if self._has_all and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            reply = self._read_machines() or reply
        if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._require_time(reply.good()["lease"])
            body = {
                "instance": self._instance, "machines": self._machines, "address": self._address,
                "engine": self._limits.engine,
            }  # fmt: skip
            reply = self._server.call("PUT", self._path, {**body, **self._installation.named})
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._tell(reply.problem())
            return False
        if reply.status == HTTPStatus.CONFLICT and self._number is not None:
            self._tell(reply.problem())
            return False
        answer = reply.good()
        self._installation.keep(answer["installation"])
        self._number = answer["number"]
        self._is_due = False
        return True

    def _read_machines(self) -> ServerReply | None:
        """Read the cluster's machines; return the answer if it is no good.

        New ones are registered; those that the cluster has lost are left out of the next
        registration, and their runs can end.
        """
        reply = self._server.call("GET", "/v1/cluster")
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return reply
        names = [
            f"{group['name']}-{index}"
            for group in reply.good()["machines"]
            for index in range(group["count"])
        ]
        self._is_due = self._is_due or not set(names) <= set(self._machines)
        if self._is_due:  # the server refuses machines that it does not know
            self._machines = names
        return None

    def turn(self) -> None:
        """Report once and carry out the orders; retry if the server is unavailable.

        Raises
        ------
        CliError
            If the server refuses the report.
        """
        try:
            if self._has_all and time.monotonic() >= self._look_s:
                self._look_s = time.monotonic() + _MACHINES_S
                self._read_machines()
            if self._is_due and not self.register():
                return
            begun = time.monotonic()
            reports = [run.report() for run in self._runs.values()]
            body = {"instance": self._instance, "runs": reports, "after": self._number}
            reply = self._server.call("POST", f"{self._path}/sync", body)
        except NoAnswerError as error:
            self._tell(str(error))
            return
        if reply.status == HTTPStatus.NOT_FOUND:
            self._is_due = True
        elif reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._tell(reply.problem())
        else:
            self._tell("")
            self._logs.send(self._runs)
            self._follow(reply, begun)

    def register_again(self) -> None:
        """Register before the next report, as after a refusal."""
        self._is_due = True

    def _follow(self, reply: ServerReply, begun: float) -> None:
        answer = reply.good()
        self._number = answer["number"]
        self._renew(begun, answer["lease"])
        for id_ in answer["settled"]:
            run = self._runs.get(id_)
            if run is not None and run.has_ended and self._logs.has_all(run):
                self._logs.forget(run)
                self._put_away(run)
        wanted = {order["id"]: order for order in answer["wanted"]}
        for id_, run in self._runs.items():
            if id_ not in wanted:
                run.stop()
        for id_, order in wanted.items():
            if id_ not in self._runs:
                made = RunDirectory.create(self._runs_at, order, self._lease, self._limits)
                self._runs[id_] = made
                click.echo(f"start {order['execution']} {order['component']} {order['index']} "
                           f"on {order['machine']}: run {id_}", err=True)  # fmt: skip
            self._runs[id_].start()

    def _renew(self, begun: float, lease_s: float) -> None:
        """Renew the lease: runs continue until the server may count them as lost, less stop time.

        Raises
        ------
        CliError
            If the lease leaves no time between two reports.
        """
        self._require_time(lease_s)
        until = begun + lease_s - self._limits.stop_grace_s - _PAUSE_S
        supervisor.write_json(str(self._lease), {"until": until})

    def _require_time(self, lease_s: float) -> None:
        """Refuse settings with which runs could not be reported or stopped within a lease.

        Half of the lease is for stopping runs, and half for the next report to be answered.

        Raises
        ------
        CliError
            If there are such settings; the message has their largest values.
        """
        longest_s = max(lease_s / 2 - _PAUSE_S, 0)
        settings = (("--stop-grace", self._limits.stop_grace_s), ("--every", self._every_s))
        wrong = [f"{name} {longest_s:g} or less" for name, value in settings if value > longest_s]
        if wrong:
            raise CliError(f"the server's lease is {lease_s:g} s; give {' and '.join(wrong)}")

    def _put_away(self, run: RunDirectory) -> None:
        """Move the directory of an ended run to those that are kept for a while."""
        run.path.rename(self._over / run.id)
        del self._runs[run.id]
        kept = sorted(self._over.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _tell(self, message: str) -> None:
        """Print once that the server is unavailable, and once that it is back."""
        if message and not self._silent:
            click.echo(f"{message}; what runs continues until the lease is over", err=True)
        elif self._silent and not message:
            click.echo("the server answers again", err=True)
        self._silent = message


#: Statuses of answers to pieces of logs that a server never accepts; retrying is useless.
_UNREADABLE: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class SentLogs:
    """How much of the runs' output the server has; it reports this, so nothing is stored here."""

    def __init__(self, server: Server, path: str, instance: str) -> None:
        self._server = server
        self._path = path
        self._instance = instance
        self._ends: dict[tuple[str, str], int] = {}
        self._next = 0

    def send(self, runs: Mapping[str, RunDirectory]) -> None:
        """Send the next pieces of all runs in turn, as many as fit into one call."""
        streams = [(id_, stream) for id_ in runs for stream in STREAMS]
        begin = self._next % max(1, len(streams))
        pieces: list[tuple[tuple[str, str], int, bytes]] = []
        for key in (*streams[begin:], *streams[:begin]):
            if len(pieces) == MOST_PIECES:
                break
            self._next += 1
            start, body = runs[key[0]].written_since(key[1], self._ends.get(key, 0))
            if body:
                pieces.append((key, start, body))
        if pieces:
            self._post(pieces)

    def _post(self, pieces: Sequence[tuple[tuple[str, str], int, bytes]]) -> None:
        """Send pieces until the server accepts them; those it cannot read count as sent."""
        sent = [
            {"run": run, "stream": stream, "start": start, "body": b64encode(body).decode()}
            for (run, stream), start, body in pieces
        ]
        try:
            reply = self._server.call(
                "POST", self._path, {"instance": self._instance, "pieces": sent}
            )
        except NoAnswerError:
            return
        if reply.ok or reply.status in _UNREADABLE:
            ends = reply.body["ends"] if reply.ok else [0] * len(pieces)
            for (key, start, body), end in zip(pieces, ends, strict=True):
                self._ends[key] = end or start + len(body)

    def has_all(self, run: RunDirectory) -> bool:
        """Return whether the whole output of a run was sent."""
        return not any(
            run.written_since(stream, self._ends.get((run.id, stream), 0))[1] for stream in STREAMS
        )

    def forget(self, run: RunDirectory) -> None:
        """Forget a run whose directory was moved away."""
        for stream in STREAMS:
            self._ends.pop((run.id, stream), None)


class _Installation:
    """The installation that an executor works for: the first that accepted its registration.

    It is stored with the runs. An executor that starts without runs may join another one.
    """

    def __init__(self, path: Path, *, busy: bool) -> None:
        self._path = path
        known = busy and path.exists()
        self._id = str(json.loads(path.read_text())["installation"]) if known else ""

    @property
    def named(self) -> dict[str, str]:
        """The fields of a registration that name the installation."""
        return {"installation": self._id} if self._id else {}

    def keep(self, id_: str) -> None:
        """Store the first id durably."""
        if not self._id:
            self._id = id_
            supervisor.write_json(str(self._path), {"installation": id_})


def _kept_instance(path: Path) -> str:
    """Return a random id that is created once; an executor that lost its state has another."""
    if not path.exists():
        supervisor.write_json(str(path), {"instance": uuid4().hex})

    return str(json.loads(path.read_text())["instance"])


def _require_hard_links(state: Path) -> None:
    """Refuse a directory whose file system has no hard links, which are needed to claim runs.

    Raises
    ------
    CliError
        If it is such a directory.
    """
    probe = state / "lock.link"
    probe.unlink(missing_ok=True)
    try:
        probe.hardlink_to(state / "lock")
    except OSError as error:
        raise CliError(f"{state} has no hard links; give a --state that has") from error
    probe.unlink()


@click.command()
@client_options
@click.option("--machine", "machines", multiple=True, metavar="NAME",
              help="Machine of the cluster that this one is; may be repeated.")  # fmt: skip
@click.option("--all", "has_all", is_flag=True,
              help="Be all machines of the cluster, for a cluster on one host.")  # fmt: skip
@click.option("--id", "name", default=None, metavar="NAME",
              help="Name of the executor; the name of this host when absent.")  # fmt: skip
@click.option("--address", default=None, metavar="HOST",
              help="Name or address under which other hosts reach this one.  [default: its name; "
              "127.0.0.1 with --all]")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), default=Path("agenda-executor"),
              show_default=True, help="Directory of runs, with output and exit codes.")  # fmt: skip
@click.option("--every", type=FiniteRange(min=0.05, max=60), default=1.0, show_default=True,
              metavar="SECONDS", help="Pause between two reports.")  # fmt: skip
@click.option("--stop-grace", type=FiniteRange(min=0, max=600), default=5.0, show_default=True,
              metavar="SECONDS", help="Time between SIGTERM and SIGKILL.")  # fmt: skip
@click.option("--limit-memory", is_flag=True,
              help="Hold each process to the memory that its component asked for.")  # fmt: skip
@click.option("--images/--no-images", default=True, show_default=True,
              help="Run images too, if this host has podman or docker.")  # fmt: skip
@mount_option
@click.option("--parent", type=int, hidden=True, help="Process with which it ends.")
@reports_errors
def executor(
    server: Server,
    machines: tuple[str, ...],
    has_all: bool,
    parent: int | None,
    name: str | None,
    address: str | None,
    state: Path,
    every: float,
    stop_grace: float,
    limit_memory: bool,
    images: bool,
    mounts: tuple[str, ...],
) -> None:
    """Run components as processes of this machine, until stopped.

    Running components continue when this command ends, until the server's lease expires;
    restart it with the same --state to take them over.
    """
    if sys.platform != "linux":
        raise CliError("the executor needs Linux")
    if has_all == bool(machines):
        raise CliError("say which machines this host is: --machine NAME, or --all")
    if parent is not None:
        end_with_parent(parent)
    engine, faults = find_engine() if images else ("", [])
    for fault in faults:
        click.echo(f"{fault}; images are run by {engine or 'no other program'}", err=True)
    limits = RunLimits(limit_memory, stop_grace, engine, mounts)
    agent = ExecutorAgent(
        server,
        name or socket.gethostname(),
        None if has_all else machines,
        state.resolve(),
        limits,
        every,
        address or ("127.0.0.1" if has_all else socket.gethostname()),
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.is_set():
        try:
            agent.turn()
        except CliError as error:
            if parent is None:
                raise
            error.show()  # its server has no other: it tries again
            agent.register_again()
            ended.wait(_RETRY_S)
        ended.wait(every)

"""Two servers on one PostgreSQL, as on two hosts: who leads, and what the other one sees."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.cli.server_process import ServerProcess
from tests.databases import empty_database
from tests.end_to_end.connections.proxy import Proxy, proxy_to
from tests.end_to_end.server_process import Client, serving, workers_of
from tests.patience import eventually

pytestmark = pytest.mark.postgres

_CLUSTER = """
step = "1s"
horizon = "2h"

[[machines]]
name = "node"
count = 4
resources = { cpu = 4 }
"""

_APPLICATION = {
    "name": "service",
    "components": [{"name": "m", "count": 3, "core": True, "resources": {"cpu": 1}}],
}

#: Lets the clock of a server's host be off by what a file says, ms.
_CLOCK = """
import time, pathlib
from service.clock import SystemClock
_off = pathlib.Path({path!r})
SystemClock.now_ms = lambda _: int(time.time() * 1000) + int(_off.read_text() or 0)
"""


@dataclass(slots=True)
class Host:
    """A server, the way to its database and its clock."""

    server: ServerProcess
    proxy: Proxy
    off: Path
    log: Path

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return (status, parsed body)."""
        return Client(self.server.port).call(method, path, body)

    def metric(self, name: str) -> float:
        """Return a figure of /metrics."""
        found = re.search(rf"^{name} (\S+)$", Client(self.server.port).text("/metrics"), re.M)
        return float(found[1]) if found else 0.0

    @property
    def leads(self) -> bool:
        """Whether it says that it leads."""
        return self.metric("agenda_leads") == 1

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        for process in (*workers_of(self.server.process.pid), self.server.process.pid):
            os.kill(process, number)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Host]]:
    """Return a function that starts a host on one database."""
    with ExitStack() as stack:
        url = stack.enter_context(empty_database("postgresql", tmp_path))
        count = 0

        def begin() -> Host:
            nonlocal count
            count += 1
            cluster, off = tmp_path / f"host{count}.toml", tmp_path / f"host{count}.off"
            cluster.write_text(_CLUSTER)
            off.write_text("0")
            proxy, through = stack.enter_context(proxy_to(url))
            clock = _CLOCK.format(path=str(off))
            server = stack.enter_context(serving(through, cluster, prepared=clock))
            return Host(server, proxy, off, cluster.with_suffix(".log"))

        yield begin


@pytest.fixture
def hosts(start: Callable[[], Host]) -> tuple[Host, Host]:
    """Return the host that leads and one that does not; something runs."""
    first = start()
    assert (
        first.call("POST", "/v1/applications", {"id": "a", "application": _APPLICATION})[0] == 201
    )
    eventually(lambda: first.leads)
    second = start()
    eventually(lambda: _shown(second)["state"], "running".__eq__)
    assert not second.leads
    return first, second


def _shown(host: Host) -> dict[str, Any]:
    shown: dict[str, Any] = host.call("GET", "/v1/applications/a")[1]
    return shown


def _submit(host: Host, id_: str) -> None:
    status, _ = host.call("POST", "/v1/applications", {"id": id_, "application": _APPLICATION})
    assert status == 201


def _runs(host: Host, id_: str) -> bool:
    rows = host.call("GET", f"/v1/assignments?execution={id_}")[1]["rows"]
    return len(rows) == 3


def test_a_commit_of_one_is_known_to_the_other_before_it_is_asked(
    hosts: tuple[Host, Host],
) -> None:
    """The other's version follows with no call but of its metrics; so it does after a lost link."""
    first, second = hosts
    for number in range(3):
        if number == 1:
            second.proxy.cut()
        if number == 2:
            second.proxy.mend()
        body = {"id": f"r{number}", "rdl": "atom(<1 cpu>, 1, 2, 1, 5)"}
        status, made = first.call("POST", "/v1/reservations", body)
        assert status == 201
        if number != 1:  # while the link is cut it cannot know
            eventually(
                lambda: second.metric("agenda_plan_version"),
                lambda version, least=made["version"]: version >= least,
            )


@pytest.mark.parametrize("how", ["dies", "hangs", "loses its database", "is cut off in silence"])
def test_another_host_leads_when_the_leader(hosts: tuple[Host, Host], how: str) -> None:
    """It takes over and dispatches; who led before and comes back does not lead."""
    first, second = hosts
    match how:
        case "dies":
            first.server.kill()
        case "hangs":
            first.signal(signal.SIGSTOP)
        case "loses its database":
            first.proxy.cut()
        case _:
            first.proxy.block()

    eventually(lambda: second.leads)
    _submit(second, "b")
    eventually(lambda: _runs(second, "a") and _runs(second, "b"))

    if how == "dies":
        return
    if how == "loses its database":  # it says so itself: operators see one leader
        eventually(lambda: not first.leads)
        assert "no longer leads the dispatch" in first.log.read_text()
    first.signal(signal.SIGCONT)
    first.proxy.mend()
    eventually(lambda: first.call("GET", "/readyz")[0], (200).__eq__)
    eventually(lambda: not first.leads)
    assert second.leads
    _submit(first, "c")
    eventually(lambda: _runs(first, "c") and _runs(first, "a"))
    assert second.leads


def test_a_clock_that_is_minutes_off_is_told_and_does_not_lead(hosts: tuple[Host, Host]) -> None:
    """Ready is 503, the log and a metric say why, another leads; the Plan keeps the true time."""
    first, second = hosts
    first.off.write_text("300000")

    eventually(lambda: second.leads)
    status, problem = first.call("GET", "/readyz")

    assert status == 503
    assert re.search(r"is 30\d\.\d s ahead of the database's", problem["detail"])
    eventually(lambda: 299 < first.metric("agenda_clock_ahead_seconds") < 301)
    assert "ahead of the database's" in first.log.read_text()
    body = {"id": "r", "rdl": "atom(<1 cpu>, 1, 2, 1, 5)"}
    made = [
        host.call("POST", "/v1/reservations", body | {"id": f"r{number}"})
        for number, host in enumerate(hosts)
    ]
    told = [float(one[1]["submitted"]) for one in made]
    assert abs(told[0] - told[1]) < 200
    first.off.write_text("0")
    eventually(lambda: first.call("GET", "/readyz")[0], (200).__eq__)

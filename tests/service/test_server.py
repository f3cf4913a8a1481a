"""Settings, addresses, and what a start refuses."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import ExitCode
from service.clock import ManualClock, SystemClock, instant_of, unix_ms
from service.commits.replica import open_replica
from service.config import ConfigError, ServiceConfig, is_loopback
from service.server import _keep_running, allow_files, require_port, run
from tests.service.conftest import CLUSTER


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_is_known(host: str) -> None:
    """Addresses that only this machine reaches."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_other_addresses_refuse_to_start(host: str, tmp_path: Path) -> None:
    """Without tokens nothing but loopback is served, and nothing is written."""
    database = tmp_path / "agenda.db"

    with pytest.raises(ConfigError, match="without tokens"):
        run(ServiceConfig(host=host, database=f"sqlite:///{database}"))

    assert not database.exists()


def test_tokens_need_an_admin(tmp_path: Path, cluster_file: Path) -> None:
    """A server that asks for tokens does not start where none of an admin is good."""
    url = f"sqlite:///{tmp_path / 'agenda.db'}"
    config = ServiceConfig(auth="token", port=0, database=url, cluster=cluster_file)
    with pytest.raises(ConfigError, match="agenda token create NAME --role admin"):
        run(config)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_a_port_in_use_is_reported_before_anything_is_written(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address, who listens there, and what to do, in one line; no database is begun."""
    monkeypatch.setattr("service.server._PORT_WAIT_S", 0)
    database = tmp_path / "agenda.db"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        other = socket.create_server((host.strip("[]"), 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no address {host}")
    with other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"1\]?:{port}|localhost:{port}") as caught:
            run(ServiceConfig(host=host, port=port, database=f"sqlite:///{database}"))

    told = str(caught.value)
    assert f"address already in use; stop process {os.getpid()} (" in told
    assert told.endswith("), or choose another port with --port")
    assert not database.exists()


def test_a_port_that_comes_free_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start right after a server was killed does not fail where its processes still end."""
    monkeypatch.setattr("service.server._PORT_WAIT_S", 60)
    other, looks = socket.create_server(("127.0.0.1", 0)), threading.Semaphore(0)
    config = ServiceConfig(port=other.getsockname()[1])
    monkeypatch.setattr("service.server.time.sleep", lambda _seconds: looks.release())
    start = threading.Thread(target=require_port, args=(config,))
    start.start()
    assert looks.acquire(timeout=300)

    other.close()

    start.join(300)
    assert not start.is_alive()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("workers", 0),
        ("threads", 0),
        ("max_body", 0),
        ("port", 70_000),
        ("tick_s", -1.0),
        ("agent_s", 0.0),
        ("streams", 0),
        ("webhook_networks", ("10.0.0.1/8",)),
        ("agent_s", float("nan")),
        ("takeover_s", 0.5),
        ("takeover_s", 3.0),
        ("database", "agenda.db"),
        ("database", "sqlite://"),
        ("database", "sqlite:///:memory:"),
    ],
)
def test_settings_are_checked(setting: str, value: object) -> None:
    """A setting that cannot work is refused before anything starts, by name."""
    given: dict[str, Any] = {setting: value}

    with pytest.raises(ConfigError):
        ServiceConfig(**given)


def test_a_first_start_needs_a_cluster(tmp_path: Path) -> None:
    """A database without a plan and no cluster file is an error that says so."""
    config = ServiceConfig(database=f"sqlite:///{tmp_path / 'agenda.db'}")

    with pytest.raises(ConfigError, match="start with a cluster file"):
        open_replica(config, ManualClock())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('step = "60s"\n->step = "30s"\n', "the step of a plan cannot change"),
        (
            'step = "60s"\n->step = "60s"\norigin = "2020-01-01T00:00:00Z"\n',
            "the origin of a plan cannot change",
        ),
    ],
)
def test_a_later_start_keeps_step_and_origin(tmp_path: Path, change: str, message: str) -> None:
    """A cluster file with another step or origin than the Plan's is refused."""
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    config = ServiceConfig(database=f"sqlite:///{tmp_path / 'agenda.db'}", cluster=path)
    open_replica(config, ManualClock()).store.close()
    before, after = change.split("->")
    path.write_text(CLUSTER.replace(before, after))

    with pytest.raises(ConfigError, match=message):
        open_replica(config, ManualClock())


def test_as_many_files_may_be_open_as_clients_are_served() -> None:
    """The limit is raised where it is too low, never lowered, and never above the system's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 500), before[1]))
        allow_files(600)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
        allow_files(100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 600
        allow_files(2**40)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_clocks_agree_on_time() -> None:
    """Instants and Unix milliseconds are each other's inverse; the system's clock continues."""
    clock = ManualClock()
    clock.advance(1.5)

    assert unix_ms(instant_of(clock.now_ms())) == clock.now_ms() == 1_767_571_201_500
    assert SystemClock().now_ms() > clock.now_ms()


def test_components_run_on_executors_or_in_slurm() -> None:
    """Both at once is refused before anything starts."""
    with pytest.raises(ConfigError, match="give only one"):
        ServiceConfig(executors=True, slurm=Path("slurm.toml"))


def test_a_slurm_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    """Every problem of its settings is in the message."""
    settings = tmp_path / "slurm.toml"
    settings.write_text('promised = "agenda"\n')
    with pytest.raises(ConfigError, match=r"no key 'machines'(.|\n)*no key 'best_effort'"):
        run(ServiceConfig(slurm=settings, port=0))


def test_metrics_are_imported_when_their_folder_is_known() -> None:
    """The library of metrics reads the folder of all workers' figures as it is imported."""
    code = "import sys, service.server; print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("code", [ExitCode.USAGE, ExitCode.NOT_ALLOWED])
def test_an_executor_that_cannot_run_is_not_started_for_ever(
    code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses become longer, and short again after a long life; some exits are final."""
    lives_s = iter([0.0] * 7 + [60.0, 0.0, 0.0])
    now_s = 0.0
    pauses: list[float] = []

    def live(*_: object, **__: object) -> int:
        nonlocal now_s
        lived_s = next(lives_s, None)
        now_s += lived_s or 0.0
        return code if lived_s is None else ExitCode.ERROR

    monkeypatch.setattr("service.server.subprocess.call", live)
    monkeypatch.setattr("service.server.time.sleep", pauses.append)
    monkeypatch.setattr("service.server.time.monotonic", lambda: now_s)
    _keep_running(["agenda", "executor"])
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 1, 2, 4]

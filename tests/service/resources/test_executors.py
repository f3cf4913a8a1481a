"""Executors as the API meets them: whose they are, and which of their reports is the newest."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from service.cli.executor import ExecutorAgent
from service.cli.executor_runs import RunLimits
from service.cli.kit.errors import CliError
from service.cli.kit.server import Server, ServerReply
from tests.service.applying import an_application, shown_of, submit_one
from tests.service.conftest import Open, Service

REGISTRATION = {"instance": "i", "machines": ["plain-0"]}


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service whose components run on executors."""
    return open_service(tick_s=0, executors=True)


class ServiceBehindUrl(Server):
    """A server whose calls go to the service of a test, which may be another one later."""

    service: Service

    def call(self, method: str, path: str, body: object = None, *_: object) -> ServerReply:
        """Return what the service answers."""
        answer = self.service.client.open(path, method=method, json=body)
        return ServerReply(answer.status_code, answer.get_json())


def reach(server: Server, service: Service) -> None:
    """Let a server's calls go to another service from now on."""
    object.__setattr__(server, "service", service)


def registered(service: Service) -> list[object]:
    """Return the executors that a service knows."""
    found: list[object] = service.client.get("/v1/executors").get_json()["executors"]
    return found


def test_an_installation_keeps_its_name(service: Service) -> None:
    """Every registration is given the same, and may show it."""
    first = service.client.put("/v1/executors/e", json=REGISTRATION).get_json()
    own = first["installation"]
    named = {**REGISTRATION, "installation": own}
    again = service.client.put("/v1/executors/e", json=named).get_json()

    assert again["installation"] == own
    assert again["number"] == first["number"] + 1


def test_an_estimate_knows_machines_without_an_executor(service: Service) -> None:
    """None while no executor reports; with some, how many machines have one is said."""
    submit_one(service, "a", an_application())

    def told() -> tuple[str, str]:
        body = service.client.get("/v1/applications/a/estimate").get_json()
        assert (body["start"] is None) == (body["basis"] == "none")
        return body["basis"], body["detail"]

    assert told() == ("none", "no executor is reporting, so no component can start")
    service.client.put("/v1/executors/e", json=REGISTRATION)
    basis, detail = told()
    assert basis == "queue"
    assert detail.endswith("machines with an executor: 1, and the others are counted too")


def test_an_executor_of_another_installation_is_refused(service: Service) -> None:
    """It is reported both names, and is not registered."""
    answer = service.client.put(
        "/v1/executors/e", json={**REGISTRATION, "installation": "elsewhere"}
    )

    assert answer.status_code == 409
    assert "but the executor to elsewhere" in answer.get_json()["detail"]
    assert registered(service) == []


def test_a_report_that_comes_late_is_refused(service: Service) -> None:
    """404 says to register again."""
    number = service.client.put("/v1/executors/e", json=REGISTRATION).get_json()["number"]
    report = {"instance": "i", "runs": [], "after": number}
    assert service.client.post("/v1/executors/e/sync", json=report).status_code == 200

    late = service.client.post("/v1/executors/e/sync", json=report)

    assert late.status_code == 404
    assert late.get_json()["detail"].endswith("register again")


def test_an_executor_waits_for_its_own_server(
    open_service: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stranger at the same address gets no work from it; a start on a stranger is an error."""
    own = open_service(tick_s=0, executors=True)
    stranger = open_service(database=f"sqlite:///{tmp_path / 'b.db'}", tick_s=0, executors=True)
    server = ServiceBehindUrl()
    agent = ExecutorAgent(
        server, "e", ["plain-0"], tmp_path / "state", RunLimits(stop_grace_s=1), 1
    )
    for reached in (own, stranger, own):
        reach(server, reached)
        agent.turn()
        agent.turn()
    said = capsys.readouterr().err

    assert said.count("this server belongs to installation") == 1
    assert "the server answers again" in said
    assert registered(stranger) == []


@pytest.mark.parametrize(
    ("stop_grace_s", "every_s", "fixes"),
    [
        (5, 1, ["--stop-grace 1.8"]),
        (1, 3, ["--every 1.8"]),
        (1.9, 1.9, ["--stop-grace 1.8", "--every 1.8"]),
        (1.8, 1.8, []),
    ],
)
def test_settings_are_refused_before_anything_is_registered(
    open_service: Open, tmp_path: Path, stop_grace_s: float, every_s: float, fixes: list[str]
) -> None:
    """A lease of 5 s has capacity for 1.8 s of stopping, and of waiting for the next report."""
    service, server = open_service(tick_s=0, executors=True, lease_s=5.0), ServiceBehindUrl()
    reach(server, service)
    limits = RunLimits(stop_grace_s=stop_grace_s)
    agent = ExecutorAgent(server, "e", ["plain-0"], tmp_path / "state", limits, every_s)

    if not fixes:
        agent.turn()
        assert len(registered(service)) == 1
        return
    with pytest.raises(CliError) as refused:
        agent.turn()
    assert all(fix in str(refused.value) for fix in fixes)
    assert registered(service) == []


def test_a_state_directory_without_hard_links_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are claimed with them; the directory is named before a server is asked anything."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr("os.link", refuse)
    with pytest.raises(CliError, match="hard links"):
        ExecutorAgent(ServiceBehindUrl(), "e", ["plain-0"], tmp_path, RunLimits(), 1)


def test_an_executor_with_runs_starts_for_its_own_server_alone(
    open_service: Open, tmp_path: Path
) -> None:
    """It ends with the reason where a stranger answers; without runs it may change."""
    own = open_service(tick_s=0, executors=True)
    stranger = open_service(database=f"sqlite:///{tmp_path / 'b.db'}", tick_s=0, executors=True)
    server, state = ServiceBehindUrl(), tmp_path / "state"

    def begin(reached: Service) -> ExecutorAgent:
        reach(server, reached)
        return ExecutorAgent(server, "e", ["plain-0"], state, RunLimits(stop_grace_s=1), 1)

    begin(own).turn()
    begin(stranger).turn()
    (state / "runs" / "r").mkdir()
    (state / "runs" / "r" / "run.json").write_text("{}")
    with pytest.raises(CliError, match="this server belongs to installation"):
        begin(own).turn()


def test_an_application_says_that_no_executor_reports(service: Service) -> None:
    """By itself and in the list; with one it waits for capacity as always."""
    submit_one(service, "a", an_application())
    service.runtime.dispatcher.tick()

    def told() -> set[str]:
        (listed,) = service.client.get("/v1/applications").get_json()["applications"]
        return {shown_of(service, "a")["reason"], listed["reason"]}

    assert told() == {"no executor is reporting, so no component can start"}
    service.client.put("/v1/executors/e", json=REGISTRATION)
    assert told() == {"it waits in the line for capacity"}

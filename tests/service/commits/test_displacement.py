"""Requests of higher priority displace others over HTTP, where the cluster's policy allows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from planner.displacement import Displacement, DisplacementAsk, displace
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel
from planner.validation.validate import validate
from service.cli.kit.server import Server
from service.cli.main import main
from tests.service.access.walking import guarded
from tests.service.cli.client.in_process_server import InProcessServer
from tests.service.conftest import CLUSTER, Open, Service

POLICY = """
[[policies]]
type = "displacement"

[[policies]]
type = "limits"
name = "modest"
tenant = "modest"
max_priority = 3
"""
#: All ten cores for half an hour, in the second hour and in it or the third.
STIFF = "window(atom(<1 cpu>, 10, 10, 30m, 5h), +1h, +1h30m)"
ROOMY = "window(atom(<1 cpu>, 10, 10, 30m, 5h), +1h, +3h)"


@pytest.fixture
def displacing(open_service: Open, cluster_file: Path) -> Service:
    """Return a service whose cluster lets every request displace."""
    cluster_file.write_text(CLUSTER + POLICY)
    return open_service(agent="earliest", tick_s=0)


def _state(service: Service, id_: str) -> Any:
    return service.client.get(f"/v1/reservations/{id_}").get_json()


def _events(service: Service) -> list[tuple[str, Any]]:
    """Return kind and data of all events so far."""
    text = service.client.get("/v1/events?wait=1&after=0").get_data(as_text=True)
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [(data["kind"], data) for data in map(json.loads, lines)]


@pytest.mark.usefixtures("unasked")
def test_one_moves_one_loses_and_both_are_reported(displacing: Service) -> None:
    """The answer, both states, the history and the events say who gave way to whom."""
    displacing.reserve("stiff", STIFF.replace("10, 10, 30m, 5h", "5, 5, 30m, 2h30m"))
    displacing.reserve("roomy", ROOMY.replace("10, 10, 30m, 5h", "5, 5, 30m, 2h30m"))
    made = displacing.reserve("urgent", STIFF, priority=5)
    assert [(one["id"], one["fate"]) for one in made["displaced"]] == [
        ("stiff", "degraded"),
        ("roomy", "moved"),
    ]
    stiff, roomy = _state(displacing, "stiff"), _state(displacing, "roomy")
    assert stiff["state"] == "degraded"
    assert stiff["degradation"]["reason"] == "displaced by urgent, of higher priority"
    assert stiff["degradation"]["offers"]
    assert roomy["state"] == "accepted"
    assert roomy["history"][-1]["what"] == "moved"
    assert roomy["version"] == stiff["version"] == made["version"]
    document = displacing.client.get("/v1/plan/export").get_json()
    assert validate(document) == []
    told = [
        (kind, data["reservation"], data.get("reason", ""))
        for kind, data in _events(displacing)
        if data.get("version") == made["version"] and "reservation" in data
    ]
    reason = "displaced by urgent, of higher priority"
    assert sorted(told) == [
        ("accepted", "urgent", ""), ("degraded", "stiff", reason), ("moved", "roomy", reason),
    ]  # fmt: skip


@pytest.mark.usefixtures("unasked")
def test_a_user_is_shown_nothing_of_another_tenants_request(
    open_service: Open, cluster_file: Path
) -> None:
    """Neither who displaces nor who is displaced learns an id or the tenant of the other."""
    cluster_file.write_text(CLUSTER + POLICY)
    server = guarded(open_service, agent="earliest", tick_s=0)
    asked = {"id": "displaced-id", "rdl": STIFF}
    assert server.call("other", "POST", "/v1/reservations", asked).status_code == 201

    asked = {"id": "urgent-id", "rdl": STIFF, "priority": 5}
    made = server.call("user", "POST", "/v1/reservations", asked)

    assert [one["fate"] for one in made.get_json()["displaced"]] == ["degraded"]
    assert not {"displaced-id", "web"} & set(re.findall(r"[\w-]+", made.get_data(as_text=True)))
    for path in (
        "/v1/reservations/displaced-id", "/v1/reservations", "/v1/plan/changes?since=0",
        "/v1/events?wait=1s&after=0",
    ):  # fmt: skip
        text = server.call("other", "GET", path).get_data(as_text=True)
        assert "displaced by a request of another tenant" in text, path
        assert not {"urgent-id", "ads"} & set(re.findall(r"[\w-]+", text)), path


def test_equal_priority_is_refused_as_before(displacing: Service) -> None:
    """Nobody of the same priority gives way."""
    displacing.reserve("first", STIFF, priority=5)
    refused = displacing.ask("second", STIFF, priority=5)
    assert refused.status_code == 409
    assert refused.get_json()["code"] == "capacity"
    assert _state(displacing, "first")["state"] == "accepted"


def test_without_a_policy_nothing_is_displaced(service: Service) -> None:
    """By default a high priority displaces no one."""
    service.reserve("first", STIFF)
    assert service.ask("second", STIFF, priority=1000).status_code == 409
    assert _state(service, "first")["state"] == "accepted"


def test_a_priority_above_the_limit_is_refused(displacing: Service) -> None:
    """A tenant may not give itself more than its policy says, neither now nor by a change."""
    refused = displacing.ask("proud", STIFF, tenant="modest", priority=4)
    assert refused.get_json()["code"] == "priority_limit"
    displacing.reserve("humble", STIFF, tenant="modest", priority=3)
    raised = displacing.client.put(
        "/v1/reservations/humble",
        json={"rdl": STIFF, "priority": 4},
        headers={"If-Match": "*"},
    )
    assert raised.get_json()["code"] == "priority_limit"
    assert _state(displacing, "humble")["priority"] == 3


def test_a_dry_run_says_who_would_be_displaced_and_changes_nothing(displacing: Service) -> None:
    """The answer names them; the Plan stays at its version."""
    before = displacing.reserve("first", STIFF)
    told = displacing.ask("second", STIFF, query="?dry_run=true", priority=5).get_json()
    assert [(one["id"], one["fate"]) for one in told["displaced"]] == [("first", "degraded")]
    assert _state(displacing, "first")["state"] == "accepted"
    assert displacing.client.get("/v1/plan").get_json()["version"] == before["version"]


def test_an_answer_with_a_key_is_remembered(displacing: Service) -> None:
    """The same request under the same key is answered with the same words, also in a batch."""
    displacing.reserve("first", STIFF)
    key = {"Idempotency-Key": "k1"}
    once = displacing.ask("second", STIFF, headers=key, priority=5)
    again = displacing.ask("second", STIFF, headers=key, priority=5)
    assert once.status_code == again.status_code == 201
    assert once.get_json() == again.get_json()
    batch = [
        {"id": "third", "rdl": STIFF, "priority": 6},
        {"id": "fourth", "rdl": "window(atom(<1 cpu>, 1, 1, 30m, 30m), +2h, +3h)"},
    ]
    answers = [
        displacing.client.post(
            "/v1/reservations:batch", json=batch, headers={"Idempotency-Key": "k2"}
        ).get_json()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert [one["status"] for one in answers[0]["results"]] == [201, 201]


def test_machines_are_capacity_too(open_service: Open, cluster_file: Path) -> None:
    """Where totals have capacity and no machine has, who stands on the machines gives way."""
    text = CLUSTER.replace("count = 10", "count = 2").replace("cpu = 1", "cpu = 2")
    cluster_file.write_text(text + POLICY)
    service = open_service(agent="earliest", tick_s=0)
    one = "window(atom(<1 cpu>, 1, 1, 30m, 30m, spread=1), +1h, +1h30m)"
    two = "window(atom(<1 cpu>, 2, 2, 30m, 1h, spread=1), +1h, +1h30m)"
    service.reserve("pair", two)
    service.reserve("single", one)
    made = service.reserve(
        "urgent", "window(atom(<2 cpu>, 1, 1, 30m, 30m), +1h, +1h30m)", priority=1
    )
    assert made["displaced"]
    document = service.client.get("/v1/plan/export").get_json()
    assert validate(document) == []


def test_a_plan_that_moves_on_meanwhile_is_searched_again(
    displacing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process cancels between search and commit is no longer displaced."""
    displacing.reserve("first", STIFF.replace("10, 10, 30m, 5h", "4, 4, 30m, 2h"), weight=1)
    displacing.reserve("second", STIFF.replace("10, 10, 30m, 5h", "6, 6, 30m, 3h"), weight=9)
    searched: list[str] = []

    def search(
        twin: Plan, asks: Sequence[DisplacementAsk], stop: Callable[[], bool]
    ) -> Displacement | None:
        found = displace(twin, asks, stop)
        if not searched:
            with displacing.runtime._replica.newest() as plan:
                prepared = plan.prepare([Cancel("first")], plan.version)
            assert prepared.record is not None
            assert displacing.runtime._replica.commit(prepared.record, displacing.clock.now_ms())
        searched.append(asks[0].request.id)
        return found

    monkeypatch.setattr("service.commits.displacement.displace", search)
    wanted = STIFF.replace("10, 10, 30m, 5h", "4, 4, 30m, 2h")
    made = displacing.reserve("urgent", wanted, priority=5)
    assert searched == ["urgent", "urgent"]
    assert "displaced" not in made
    assert _state(displacing, "first")["state"] == "cancelled"
    assert _state(displacing, "second")["state"] == "accepted"


def test_the_command_line_says_who_was_displaced(
    displacing: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`agenda submit --priority` names them, and `agenda reservations list` has the priority."""
    server = InProcessServer(displacing)
    monkeypatch.setattr(Server, "call", server.call)
    monkeypatch.setattr(Server, "once", server.once)
    (tmp_path / "job.rdl").write_text(STIFF)
    submit = ["submit", str(tmp_path / "job.rdl"), "--id"]
    first = CliRunner().invoke(main, [*submit, "first"])
    assert first.exit_code == 0, first.output
    for more, told in (
        (["--dry-run"], "would displace first: it would be degraded"),
        ([], "displaced first: it is degraded"),
    ):
        said = CliRunner().invoke(main, [*submit, "second", "--priority", "5", *more])
        assert told in said.output
    listed = CliRunner().invoke(main, ["reservations", "list", "-o", "csv"]).output.splitlines()
    assert listed[0].split(",")[-2:] == ["priority", "code"]
    assert [line.split(",")[-2] for line in listed[1:]] == ["0", "5"]


@pytest.mark.usefixtures("unasked")
def test_the_log_is_replayed_to_the_same_plan(displacing: Service, open_service: Open) -> None:
    """A server that starts on the log has the same reservations; the audit names who did it."""
    displacing.reserve("first", STIFF)
    displacing.reserve("second", STIFF, priority=5)
    audited = displacing.client.get("/v1/audit").get_json()["changes"]
    version = _state(displacing, "second")["version"]
    rows = [(one["kind"], one["about"]) for one in audited if one["version"] == version]
    assert sorted(rows) == [("admit", "second"), ("degrade", "first")]
    before = [_state(displacing, id_) for id_ in ("first", "second")]
    again = open_service(agent="earliest", tick_s=0)
    assert [_state(again, id_) for id_ in ("first", "second")] == before


def test_under_a_key_only_what_has_an_id_displaces_in_a_batch(displacing: Service) -> None:
    """A repetition could not know again what the server has named."""
    displacing.reserve("first", STIFF)
    small = {"rdl": "window(atom(<1 cpu>, 1, 1, 30m, 30m), +2h, +3h)"}
    batch = [{"rdl": STIFF, "priority": 6}, small]

    made = displacing.client.post(
        "/v1/reservations:batch", json=batch, headers={"Idempotency-Key": "k"}
    ).get_json()

    assert [one["status"] for one in made["results"]] == [409, 201]
    assert _state(displacing, "first")["state"] == "accepted"
    bare = displacing.client.post("/v1/reservations:batch", json=batch).get_json()
    assert [one["status"] for one in bare["results"]] == [201, 201]


def test_a_dry_run_that_displaces_nothing_has_offers(displacing: Service) -> None:
    """Where the search whom to displace ends without a place, offers are sought as without it."""
    displacing.reserve("low", "window(atom(<1 cpu>, 1, 1, 30m, 30m), +1h, +1h30m)")
    displacing.reserve("equal", STIFF.replace("10, 10, 30m, 5h", "9, 9, 30m, 4h30m"), priority=5)

    dry = displacing.ask("wide", STIFF, query="?dry_run=true&offers=3", priority=5)
    made = displacing.ask("wide", STIFF, query="?offers=3", priority=5)

    assert dry.status_code == made.status_code == 409
    offers = [one.get_json()["refusal"]["offers"] for one in (dry, made)]
    assert len(offers[0]) == len(offers[1]) > 0

"""GET /v1/status: each part says what an operator asks first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.access.user import Role, User
from service.resources import status
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import CLUSTER, Open, Service

GANG = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 7200)"


def _status(service: Service) -> Any:
    answer = service.client.get("/v1/status")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def test_an_empty_cluster_is_all_up_and_nothing_is_at_risk(service: Service) -> None:
    """Ten machines of one core and 4 GiB, nothing promised, and nothing to say."""
    told = _status(service)
    assert told["machines"] == {"total": 10, "up": 10, "outages": []}
    assert [(one["resource"], one["now_share"]) for one in told["promised"]] == [
        ("cpu", 0), ("memory", 0),
    ]  # fmt: skip
    assert told["work"] == {"running": 0, "waiting": 0, "components": 0}
    assert (told["ends"], told["at_risk"], told["refused"], told["problems"]) == ([], [], [], [])
    assert told["attention"] == []


def test_promises_machines_and_refusals_of_a_day(service: Service) -> None:
    """Eight cores for ten minutes at some time, five machines lost, one request refused."""
    service.reserve("a", GANG, tenant="ads")
    assert service.ask("b", GANG.replace("8, 8", "11, 11")).status_code == 409
    before = _status(service)
    cpu = before["promised"][0]
    assert (cpu["unit"], cpu["capacity"], cpu["peak_share"]) == ("cores", 10, 0.8)
    assert before["ends"] == [
        {"id": "a", "tenant": "ads", "state": "accepted", "end_at": before["ends"][0]["end_at"]}
    ]
    lost = {"machines": "plain", "count": 5, "end": "+2h"}
    outage = service.client.post("/v1/cluster/outages", json=lost).get_json()["outage"]

    told = _status(service)

    assert (told["machines"]["total"], told["machines"]["up"]) == (10, 5)
    assert told["machines"]["outages"] == [
        {
            "id": outage["id"],
            "kind": "loss",
            "machines": "plain",
            "count": 5,
            "end_at": None,
            "reason": "",
        }
    ]
    (risk,) = told["at_risk"]
    assert (risk["id"], risk["tenant"], risk["state"]) == ("a", "ads", "degraded")
    assert risk["reason"]
    assert told["at_risk_count"] == 1
    assert told["refused"] == [{"code": "capacity", "count": 1}]
    assert told["attention"] == ["1 promise at risk", "5 machines lost"]


def test_work_that_waits_while_no_one_dispatches_is_a_problem(open_service: Open) -> None:
    """An application that waits; then one that runs; then a dispatcher that has gone."""
    service = open_service(tick_s=0)
    component = {"name": "m", "count": 2, "core": True, "resources": {"cpu": 1}}
    body = {"id": "x", "application": {"name": "x", "components": [component]}}
    service.client.post("/v1/applications", json=body)
    service.runtime.dispatcher.tick()
    assert _status(service)["work"] == {"running": 1, "waiting": 0, "components": 2}
    many = {**component, "count": 9}
    more = {"id": "y", "application": {"name": "y", "components": [many]}}
    service.client.post("/v1/applications", json=more)
    assert (_status(service)["work"]["waiting"], _status(service)["problems"]) == (1, [])
    service.clock.advance(600)
    (problem,) = _status(service)["problems"]
    assert "no process has dispatched for" in problem
    assert _status(service)["attention"] == [problem]


def test_the_command_shows_each_part(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines and their outage, the peak, who is at risk, what ends next, and refusals."""
    let_commands_ask(service, monkeypatch)
    service.reserve("a", GANG, tenant="ads")
    service.reserve("c", "window(atom(<1 cpu>, 1, 1, 600, 600), 0, 7200)", tenant="ml")
    service.client.post("/v1/cluster/outages", json={"machines": "plain", "count": 5, "end": "+2h"})
    lines = [" ".join(line.split()) for line in agenda("status").stdout.splitlines()]
    assert "machines 5 of 10 are up" in lines
    assert any(line.startswith("5 of plain: loss o-") for line in lines)
    assert "work 0 applications running, 0 waiting; 0 components on machines" in lines
    assert "at risk 1 degraded" in lines
    assert "refused 0 in the last hour" in lines
    assert any(line.startswith("a ads degraded 2026-01-05 00:00") for line in lines)
    assert any(line.startswith("c ml accepted 2026-01-05") for line in lines)


@pytest.mark.parametrize(
    "command",
    ["reservations list", "apps list", "assignments", "holds list", "machines",
     "outages list", "policies list", "cluster show", "usage", "report", "audit", "webhook list",
     "optimizations list"],
)  # fmt: skip
def test_every_list_says_that_something_is_wrong(
    service: Service, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """One line below a table; documents for programs, and a cluster in order, have none."""
    let_commands_ask(service, monkeypatch)
    words = command.split()
    assert "attention" not in agenda(*words).stderr
    service.reserve("a", GANG, tenant="ads")
    service.client.post("/v1/cluster/outages", json={"machines": "plain", "count": 5, "end": "+2h"})
    said = "attention: 1 promise at risk; 5 machines lost: agenda status\n"
    assert agenda(*words).stderr == said
    assert agenda(*words, "-o", "json").stderr == ""


def test_a_list_is_shown_where_the_status_is_not_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of another version, or one that fails then."""
    let_commands_ask(service, monkeypatch)
    monkeypatch.setattr(status, "_machines", None)
    shown = agenda("outages", "list")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, "no outages\n", "")


def test_a_machine_that_two_outages_have_is_lost_once(service: Service) -> None:
    for reason in ("power", "network"):
        body = {"machines": "plain", "names": ["plain-0"], "end": "+2h", "reason": reason}
        made = service.client.post("/v1/cluster/outages", json=body)
        assert made.status_code == 201, made.get_json()
    assert _status(service)["attention"] == ["1 machine lost"]


def test_pools_that_lack_units_are_shown_and_machines_are_up(
    open_service: Open, cluster_file: Path
) -> None:
    """An outage of licences takes no machine; a loss of them is a reason to look."""
    cluster_file.write_text(f"{CLUSTER}\n[[pools]]\nname = 'matlab'\ncount = 3\n")
    service = open_service()
    for kind, count in (("maintenance", 1), ("loss", 2)):
        lost = {"machines": "matlab", "count": count, "end": "+2h", "kind": kind}
        assert service.client.post("/v1/cluster/outages", json=lost).status_code == 201
    told = _status(service)
    assert told["machines"]["up"] == told["machines"]["total"] == 10
    found = {(one["machines"], one["kind"], one["count"]) for one in told["machines"]["outages"]}
    assert found == {("matlab", "maintenance", 1), ("matlab", "loss", 2)}
    assert told["attention"] == ["2 matlab lost"]


def test_others_are_not_named(service: Service) -> None:
    """A user sees ids of its own tenants alone; amounts are everybody's."""
    service.reserve("a", GANG, tenant="ads")
    with service.runtime.reading() as plan:
        user = User("bob", Role.USER, frozenset({"ml"}))
        assert status._ends(service.runtime, plan, user) == []
        assert status._at_risk(service.runtime, plan, user, {"a"}) == []

"""Every code of a refusal, reached from outside: one row a code, over HTTP or the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.view import PlanView
from service.problems import CODES
from tests.service.cli.command_line import agenda
from tests.service.conftest import CLUSTER, Open, Service

POLICIES = """
[[policies]]
type = "capacity_over_time"
name = "fair"
tenant = "averaged"
average = 0.25
window = "1h"

[[policies]]
type = "quota"
name = "small"
tenant = "small"
limit = { cpu = 2 }

[[policies]]
type = "limits"
name = "careful"
tenant = "limited"
max_window = "2h"
min_lead = "10m"
max_count = 1
max_priority = 5

[[policies]]
type = "agent"
name = "humble"
agent = "aligned"
instant = 0.2
"""
WHOLE = "window(atom(<1 cpu>, 10, 10, 1h, 10h), +0, +1h)"
LATE = "window(atom(<1 cpu>, 1, 1, 1m, 1m), +20m, +1h)"


def twice(rdl: str, **more: Any) -> Callable[[Service], Any]:
    """Ask for the same two times; the second is refused."""

    def ask(service: Service) -> Any:
        service.reserve("first", rdl, **more)
        return service.ask("second", rdl, **more)

    return ask


def once(rdl: str, **more: Any) -> Callable[[Service], Any]:
    """Ask for one reservation."""
    return lambda service: service.ask("first", rdl, **more)


def same_id(service: Service) -> Any:
    """Ask for two different reservations under one id."""
    service.reserve("first")
    return service.ask("first", weight=2)


def other_past(service: Service) -> Any:
    """Renegotiate what has run for half an hour to other bundles."""
    service.reserve("first", WHOLE)
    service.clock.advance(1800)
    other = WHOLE.replace("1 cpu", "500m cpu")
    headers = {"If-Match": "*"}
    return service.client.put("/v1/reservations/first", json={"rdl": other}, headers=headers)


@dataclass(frozen=True)
class Overtaken:
    """An agent whose every answer the clock overtakes before it can be committed."""

    service: Service
    name: str = "earliest"

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> list[PlacementResult]:
        """Place at the present step, and let that step pass."""
        results = agent_named("earliest").plan(requests, view, limits)
        self.service.clock.advance(120)
        self.service.runtime.planner._committer.move_to_now()
        return list(results)


def overtaken(service: Service) -> Any:
    """Ask while the Plan moves on under the request, again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.commits.screening.agent_named", lambda name: Overtaken(service))
        return service.ask("first", "atom(<1 cpu>, 1, 1, 1m, 1m)", agent="earliest")


#: Code -> the request that gets it.
OVER_HTTP: dict[str, Callable[[Service], Any]] = {
    Code.MALFORMED: once("atom(<1 cpu>, 2, 1, 1m, 1m)"),
    Code.UNSATISFIABLE: once("window(atom(<1 cpu>, 1, 1, 10m, 10m), +0, +5m)"),
    Code.BEYOND_HORIZON: once("window(atom(<1 cpu>, 1, 1, 1m, 1m), +5h, +6h)"),
    Code.CAPACITY: twice(WHOLE),
    Code.CAPACITY_OVER_TIME: once(
        "window(atom(<1 cpu>, 3, 3, 1h, 3h), +0, +1h)", tenant="averaged"
    ),
    Code.QUOTA: once("atom(<1 cpu>, 3, 3, 1m, 3m)", tenant="small"),
    Code.WINDOW_LIMIT: once(LATE.replace("+1h", "+3h"), tenant="limited"),
    Code.LEAD_TIME: once(LATE.replace("+20m", "+5m"), tenant="limited"),
    Code.COUNT_LIMIT: twice(LATE, tenant="limited"),
    Code.PRIORITY_LIMIT: once(LATE, tenant="limited", priority=6),
    Code.AGENT_LIMIT: once("atom(<1 cpu>, 3, 3, 1m, 3m)", agent="aligned"),
    Code.CONFLICT: overtaken,
    Code.DUPLICATE_ID: same_id,
    Code.PAST_CHANGED: other_past,
}


@pytest.mark.parametrize("code", OVER_HTTP, ids=str)
def test_the_request_that_gets_a_code(open_service: Open, cluster_file: Path, code: str) -> None:
    """The answer has the code, its status, a sentence, and the request is in no plan."""
    cluster_file.write_text(CLUSTER + POLICIES)
    service = open_service()

    answer = OVER_HTTP[code](service)

    body = answer.get_json()
    assert (answer.status_code, body["code"]) == (CODES[code][0], code), body
    assert body["detail"]
    if "refusal" in body:
        kept = service.client.get(f"/v1/reservations/{body['refusal']['id']}").get_json()
        assert (kept["state"], kept["code"], kept["detail"]) == ("refused", code, body["detail"])


def test_what_time_did_not_allow(tmp_path: Path) -> None:
    """A plan stopped by its time limit refuses the rest with time_limit, and is valid."""
    cluster, workload, out = (tmp_path / name for name in ("c.toml", "day.jsonl", "plan.json"))
    cluster.write_text(CLUSTER)
    lines = [{"id": f"r{i}", "rdl": "atom(<1 cpu>,1,1,60,60)"} for i in range(3000)]
    workload.write_text("".join(json.dumps(line) + "\n" for line in lines))

    done = agenda("plan", cluster, workload, "--time-limit", "0.001s", "--out", out)

    plan = json.loads(out.read_text())
    codes = {refusal["code"] for refusal in plan["refusals"]}
    assert done.exit_code == 0
    assert Code.TIME_LIMIT in codes
    assert len(plan["refusals"]) + len(plan["reservations"]) == 3000
    assert agenda("validate", out, "--workload", workload).exit_code == 0


def test_no_code_is_without_its_request() -> None:
    """The table and the test of the time limit are all codes there are."""
    assert {*OVER_HTTP, Code.TIME_LIMIT} == set(Code)

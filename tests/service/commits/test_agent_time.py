"""How long an agent may take while others wait for the planner."""

from __future__ import annotations

import pytest

from planner.agents import QUICK_AGENTS
from tests.service.conftest import Open
from tests.service.together import interrupt

ONE = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"
TWO = "window(atom(<1 cpu>, 2, 2, 60, 120), +0, +1h)"


@pytest.mark.parametrize(("quick", "allowed"), [(True, None), (False, 3.0)])
def test_a_solver_is_given_the_time_that_is_set(
    open_service: Open, monkeypatch: pytest.MonkeyPatch, quick: bool, allowed: float | None
) -> None:
    """Also to renegotiate and in a dry run; a quick agent may take what a batch needs."""
    service = open_service(agent_s=3.0)
    agent = interrupt(monkeypatch)
    if quick:
        monkeypatch.setattr("service.commits.commands.QUICK_AGENTS", QUICK_AGENTS)

    service.reserve("a", ONE, agent="gree-l")
    body = {"rdl": TWO, "agent": "gree-l"}
    service.client.put("/v1/reservations/a", json=body, headers={"If-Match": "*"})
    service.ask("b", ONE, query="?dry_run=true", agent="gree-l")

    assert agent.allowed == [allowed] * 3

"""Offers on a Plan under policies, and on the state that a commit is about to make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.offer_search import OfferSearch
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, UncompiledRequest
from planner.plan.records.reservation_records import Admitted
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from tests.builders import a_cluster, a_plan, a_request, ask, commit

POLICIES: tuple[dict[str, Any], ...] = (
    {"kind": "quota", "name": "q", "tenant": "*", "limit": {"cpu": 5}},
    {"kind": "capacity_over_time", "name": "i", "tenant": "*", "instant": 0.5},
    {"kind": "capacity_over_time", "name": "a", "average": 0.25, "window": "10m"},
    {"kind": "limits", "name": "w", "max_window": "8m"},
    {"kind": "limits", "name": "l", "tenant": "*", "min_lead": "2m", "max_lead": "20m"},
)


def cluster_of(policies: tuple[dict[str, Any], ...]) -> Cluster:
    """Four machines of 4 cores, steps of 10 s, an hour."""
    built = a_cluster().step("10s").horizon("1h").machines("m", 4, cpu=4)
    for policy in policies:
        built = built.policy(**policy)
    return built.build()


def answer_for(plan: Plan, text: str, agent: str = "gree", most: int = 9) -> dict[str, Any]:
    """Ask as the service does."""
    expression = read_source(text)
    asked = UncompiledRequest(
        "asked", "default", "default", 0, 1.0, 0, format_expression(expression)
    )
    return OfferSearch.of(plan).answer(
        asked, expression, agent_named(agent), most, lambda request: screen(plan, request)
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a request of one or two atoms in a window."""
    atoms = []
    for _ in range(draw(st.integers(1, 2))):
        g, lease = draw(st.integers(1, 6)), draw(st.integers(1, 30)) * 10
        work = lease * g * draw(st.integers(1, 4))
        atoms.append(f"atom(<1 cpu>, {g}, {g + draw(st.integers(0, 6))}, {lease}, {work})")
    operator = draw(st.sampled_from(["order", "any", "all"]))
    body = atoms[0] if len(atoms) == 1 else f"{operator}({', '.join(atoms)})"
    start = draw(st.integers(0, 150)) * 10
    return f"window({body}, {start}, {start + draw(st.integers(1, 200)) * 10})"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(POLICIES), max_size=3, unique_by=lambda one: one["name"]),
    st.lists(texts(), max_size=8),
    texts(),
    st.sampled_from(["gree", "gree-l", "earliest"]),
)
def test_an_offer_sent_back_is_accepted_under_policies(
    policies: list[dict[str, Any]], standing: list[str], text: str, agent: str
) -> None:
    """Whatever the policies: what is offered passes them, the agent and the commit."""
    plan = Plan(cluster_of(tuple(policies)), cluster_of(tuple(policies)).grid())
    for number, one in enumerate(standing):
        request = a_request(f"s{number}", one).if_possible(plan.cluster)
        if request is not None and screen(plan, request) is None:
            ask(plan, request)
    answer = answer_for(plan, text, agent)
    assert answer["version"] == plan.version
    assert not (answer["accepted"] and answer["offers"])
    event(f"offers: {len(answer['offers'])}")
    for offer in answer["offers"]:
        request = a_request("asked", offer["expression"]).on(plan.cluster)
        assert screen(plan, request) is None, offer
        result = agent_named(agent).plan([request], plan.view(), Limits())[0]
        assert result.placed, offer
        prepared = plan.prepare([Admit(request, result, agent)], plan.version)
        assert not prepared.conflicts, offer


@pytest.mark.parametrize(
    ("policy", "window", "offered"),
    [
        ({"max_window": "8m"}, "0, 20m", {("start", 720), ("deadline", 480)}),
        ({"min_lead": "2m"}, "0, 20m", {("start", 120)}),
        ({"max_lead": "5m"}, "10m, 20m", {("start", 300)}),
    ],
)
def test_windows_are_moved_to_the_nearest_that_a_policy_allows(
    policy: dict[str, Any], window: str, offered: set[tuple[str, float]]
) -> None:
    """A window too long is cut at either end; one too early or too late starts at the bound."""
    cluster = cluster_of(({"kind": "limits", "name": "w", **policy},))
    plan = Plan(cluster, cluster.grid())
    answer = answer_for(plan, f"window(atom(<1 cpu>, 1, 4, 1m, 4m), {window})")
    assert answer["refusal"]["code"] in ("window_limit", "lead_time")
    found = {(one["change"]["kind"], one["change"]["offered"]) for one in answer["offers"]}
    assert offered <= found


def test_a_solver_accepts_what_is_offered_in_its_name() -> None:
    """Variants are tried by the greedy agent; the MILP places what it placed."""
    cluster = a_cluster().horizon("60s").machines("m", 4, cpu=1).build()
    standing = a_request("s", "window(atom(<1 cpu>, 4, 4, 20, 80), 0, 20)").on(cluster)
    plan = a_plan(cluster).holding(standing).build()
    answer = answer_for(plan, "window(atom(<1 cpu>, 4, 4, 10, 40), 0, 25)", "milp")
    assert answer["offers"]
    for offer in answer["offers"]:
        request = a_request("asked", offer["expression"]).on(cluster)
        assert agent_named("milp").plan([request], plan.view(), Limits())[0].placed


def test_what_a_commit_takes_is_not_offered_again() -> None:
    """On the state after a placement its capacity is gone, and offers name that version."""
    cluster = a_cluster().horizon("60s").machines("m", 4, cpu=1).build()
    plan = Plan(cluster, cluster.grid())
    agent, text = agent_named("gree"), "window(atom(<1 cpu>, 4, 4, 20, 80), 0, {})"
    first = a_request("first", text.format(20)).on(cluster)
    result = agent.plan([first], plan.view(), Limits())[0]
    second = a_request("second", text.format(20)).on(cluster)
    before = OfferSearch.of(plan)
    record = plan.prepare([Admit(first, result, "gree")], 0).record
    assert record is not None
    after = before.after([one for one in record.changes if isinstance(one, Admitted)], 1)
    (offer,) = after.offers(second, second.graph.expression, agent, 1)
    assert offer["at_version"] == 1
    assert offer["expression"] == "window(atom(<1 cpu>, 4, 4, 20, 80), 0, 40)"
    assert before.view.free.min() == 4000
    commit(plan, Admit(first, result, "gree"))
    request = a_request("second", offer["expression"]).on(cluster)
    assert agent.plan([request], plan.view(), Limits())[0].placed


def test_nothing_is_tried_once_the_search_is_stopped() -> None:
    """A search without time has no offers, and asks no agent."""
    cluster = a_cluster().horizon("60s").machines("m", 4, cpu=1).build()
    plan = Plan(cluster, cluster.grid())
    request = a_request("r", "window(atom(<1 cpu>, 5, 5, 10, 50), 0, 20)").on(cluster)

    class Unasked:
        name = "unasked"

        def plan(self, *_: object) -> Any:
            raise AssertionError("no time is left")

    search = OfferSearch.of(plan, lambda: True)
    assert search.offers(request, request.graph.expression, Unasked(), 3) == ()

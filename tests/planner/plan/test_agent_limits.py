"""Policies on what an agent may commit: held at the commit, and checked by the validator alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.files.errors import FileError
from planner.metrics import measure
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel, Reconfigure, Update
from planner.renegotiation import renegotiation_of
from planner.validation.validate import validate
from planner.workload.plan import document_of
from tests.builders import a_cluster, a_plan, a_request, ask, commit

HORIZON = 24


def _cluster(**limit: Any) -> Cluster:
    builder = a_cluster().horizon(HORIZON).machines("m", 8, cpu=1)
    return builder.policy("agent", name="bound", **limit).build() if limit else builder.build()


def _gang(height: int, start: int, end: int) -> str:
    return f"window(atom(<1 cpu>, {height}, {height}, 4, {height * 4}), {start}, {end})"


def _violations(plan: Plan) -> list[str]:
    document = document_of(plan, "x", "submitted", measure([], plan.cluster.nominal, HORIZON))
    body = document.to_json()
    del body["metrics"]
    return [f"{one.where}: {one.detail}" for one in validate(body, grid=plan.grid)]


def _code(plan: Plan, id_: str, source: str, agent: str = "gree") -> Code | None:
    """Ask for a request by an agent; return why it is not committed."""
    request = a_request(id_, source).on(plan.cluster)
    prepared = ask(plan, request, agent_named(agent))
    return prepared.conflicts[0].code if prepared.conflicts else None


@pytest.mark.parametrize("limit", [{"instant": 0.5}, {"limit": {"cpu": 4}}])
def test_an_agent_holds_no_more_than_its_share_at_once(limit: dict[str, Any]) -> None:
    """Four of eight cores may be held at once by one agent; later, or by another, they may."""
    plan = Plan(_cluster(agent="gree", **limit), _cluster().grid())
    assert _code(plan, "a", _gang(3, 0, 4)) is None
    assert _code(plan, "b", _gang(2, 0, 4)) is Code.AGENT_LIMIT
    assert _code(plan, "c", _gang(1, 0, 4)) is None
    assert _code(plan, "d", _gang(4, 4, 8)) is None
    assert _code(plan, "e", _gang(4, 0, 4), agent="aligned") is None
    assert _violations(plan) == []


def test_an_agent_has_no_more_reservations_than_it_may() -> None:
    """One that is cancelled frees capacity for the next; each agent of `*` is counted by itself."""
    plan = Plan(_cluster(agent="*", max_count=1), _cluster().grid())
    assert _code(plan, "a", _gang(1, 0, 4)) is None
    assert _code(plan, "b", _gang(1, 0, 4)) is Code.AGENT_LIMIT
    assert _code(plan, "c", _gang(1, 0, 4), agent="aligned") is None
    commit(plan, Cancel("a"))
    assert _code(plan, "d", _gang(1, 0, 4)) is None


def test_a_change_counts_instead_of_what_it_replaces() -> None:
    """A reservation may be renegotiated to itself under a full limit, and not to more."""
    plan = Plan(_cluster(agent="gree", limit={"cpu": 2}, max_count=1), _cluster().grid())
    assert _code(plan, "a", _gang(2, 0, 8)) is None
    for height, wanted in ((2, None), (3, Code.AGENT_LIMIT)):
        request = a_request("a", _gang(height, 4, 8)).on(plan.cluster)
        result = renegotiation_of(plan, "a", request).place(agent_named("gree"), Limits())
        change = Update("a", int(plan.table.meta[0]["revision"]), request, result, "gree")
        prepared = plan.prepare([change], plan.version)
        assert [one.code for one in prepared.conflicts] == ([] if wanted is None else [wanted])
        if prepared.record is not None:
            plan.apply(prepared.record)


def test_the_validator_finds_what_an_agent_holds_too_much() -> None:
    """A policy that came later evicts no one; the judge says who is above it, and by how much."""
    plan = Plan(_cluster(), _cluster().grid())
    assert _code(plan, "a", _gang(5, 0, 4)) is None
    assert _code(plan, "b", _gang(1, 0, 4), agent="aligned") is None
    bound = _cluster(agent="gree", instant=0.5, max_count=0).policies
    commit(plan, Reconfigure(replace(plan.cluster, policies=bound)))
    found = _violations(plan)
    assert len(found) == 2
    assert "1 reservations stand, above 0" in found[0]
    assert "5000 of cpu" in found[1]
    assert "policy:bound" in found[1]


def test_the_validator_finds_a_priority_above_the_policy() -> None:
    """`max_priority` is held against every reservation of the scope."""
    cluster = _cluster()
    plan = a_plan(cluster).holding(a_request("a", _gang(1, 0, 4)).priority(7).on(cluster)).build()
    bound = a_cluster().policy("limits", name="modest", max_priority=6).build().policies
    commit(plan, Reconfigure(replace(plan.cluster, policies=bound)))
    assert ["priority 7 is above 6" in one for one in _violations(plan)] == [True]


def test_policies_of_agents_and_displacement_are_read_and_written() -> None:
    """What is written of a cluster is read back as it was."""
    builder = a_cluster().machines("m", 8, cpu=1).queue("default")
    builder = builder.policy("agent", agent="exact", instant=0.25, limit={"cpu": 4}, max_count=3)
    builder = builder.policy("displacement", queue="default", running=True)
    cluster = builder.policy("limits", max_priority=-3).build()
    assert cluster_from_json(cluster_to_json(cluster)).policies == cluster.policies


def test_a_policy_that_limits_no_agent_is_an_error() -> None:
    """Without a share, amounts or a number nothing would be limited."""
    with pytest.raises(FileError, match="nothing is limited"):
        a_cluster().machines("m", 8, cpu=1).policy("agent", agent="gree").build()


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 12),
            st.integers(4, 12),
            st.sampled_from(["gree", "aligned"]),
        ),
        max_size=12,
    )
)
def test_no_sequence_of_commits_takes_an_agent_above_its_limit(
    asked: list[tuple[int, int, int, str]],
) -> None:
    """Whatever is asked of whom, the validator finds every policy kept."""
    plan = Plan(_cluster(agent="*", instant=0.5, max_count=5), _cluster().grid())
    for index, (height, start, length, agent) in enumerate(asked):
        _code(plan, f"r{index}", _gang(height, start, min(HORIZON, start + length)), agent)
    assert _violations(plan) == []

"""Renegotiation under policies: to itself always, to another wholly or not at all."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure, Update
from planner.renegotiation import renegotiation_of
from planner.reservations.state import LIVE
from rdl.errors import RdlError
from tests.builders import ClusterBuilder, a_cluster, a_request, ask, commit

_STEPS = 40
_PERIOD = 8


def _cluster(policies: list[dict[str, Any]], lost: int = 0) -> Cluster:
    built: ClusterBuilder = a_cluster().horizon(_STEPS).machines("m", 6, cpu=2)
    if lost:
        built = built.outage("m", lost, 10, 30)
    for number, policy in enumerate(policies):
        built = built.policy(name=f"p{number}", **policy)
    return built.build()


_SCOPES = st.sampled_from([{}, {"tenant": "*"}, {"tenant": "a"}, {"queue": "default"}])
_POLICIES = st.one_of(
    st.builds(
        lambda scope, share: {"kind": "capacity_over_time", "instant": share, **scope},
        _SCOPES,
        st.sampled_from([0.25, 0.5, 0.75]),
    ),
    st.builds(
        lambda scope, share, window: {
            "kind": "capacity_over_time", "average": share, "window": window, **scope
        },
        _SCOPES,
        st.sampled_from([0.1, 0.25, 0.5]),
        st.integers(2, 50),
    ),
    st.builds(
        lambda scope, most: {"kind": "quota", "limit": {"cpu": most}, **scope},
        _SCOPES,
        st.integers(1, 8),
    ),
    st.builds(
        lambda scope, most, lead: {
            "kind": "limits", "max_window": most, "min_lead": lead, "max_count": 3, **scope
        },
        _SCOPES,
        st.integers(10, 40),
        st.integers(0, 3),
    ),
)  # fmt: skip


@st.composite
def _text(draw: st.DrawFn) -> str:
    g, lease = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    high = g + draw(st.integers(0, 3))
    work = lease * g * draw(st.integers(1, 3))
    atom = f"atom(<1 cpu>, {g}, {high}, {lease}, {work})"
    shape = draw(st.sampled_from(["atom", "order", "every", "together", "together in order"]))
    if shape.startswith("together"):
        count = draw(st.integers(1, 3))
        gang = f"atom(<2 cpu>, {count}, {count}, {lease}, {count * lease})"
        both = f"together(atom(<1 cpu>, {g}, {g}, {lease}, {g * lease}), {gang})"
        body = both if shape == "together" else f"order({both}, {atom})"
        start = draw(st.integers(3, 10))
        return f"window({body}, {start}, {start + draw(st.integers(8, 25))})"
    if shape == "every":
        times = draw(st.integers(2, 3))
        return f"window(every({_PERIOD}, window({atom}, 0, {_PERIOD}), times={times}), 3, 39)"
    body = atom if shape == "atom" else f"order({atom}, {atom})"
    start = draw(st.integers(3, 10))
    return f"window({body}, {start}, {start + draw(st.integers(8, 25))})"


def _compiled(plan: Plan, id_: str, text: str, tenant: str) -> Any:
    try:
        return a_request(id_, text).tenant(tenant).on(plan.cluster, plan.grid)
    except RdlError:
        return None


def _held(plan: Plan) -> list[dict[str, Any]]:
    return [one.to_json(plan.grid)["atoms"] for one in plan.reservations()]


def _filled(policies: list[dict[str, Any]], texts: list[tuple[str, str]]) -> Plan:
    cluster = _cluster(policies)
    plan = Plan(cluster, cluster.grid())
    for number, (tenant, text) in enumerate(texts):
        request = _compiled(plan, f"r{number}", text, tenant)
        if request is not None:
            ask(plan, request)
    assume(next(plan.reservations(), None) is not None)
    return plan


_CASES = {
    "policies": st.lists(_POLICIES, max_size=3),
    "texts": st.lists(st.tuples(st.sampled_from("ab"), _text()), min_size=1, max_size=6),
    "now": st.integers(0, 30),
}


def _live(plan: Plan) -> list[str]:
    return [one.id for one in plan.reservations() if one.state in LIVE]


def _renegotiate(plan: Plan, id_: str, text: str) -> bool:
    present = plan.reservation(id_)
    assert present is not None
    request = _compiled(plan, id_, text, present.tenant)
    if request is None:
        return False
    result = renegotiation_of(plan, id_, request).place(agent_named("gree"), Limits())
    if not result.placed:
        assert result.detail
        return False
    prepared = commit(plan, Update(id_, present.revision, request, result, "gree"))
    assert not prepared.conflicts, prepared.conflicts
    return True


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(lowered=st.lists(_POLICIES, max_size=2), lost=st.integers(0, 4), **_CASES)
def test_anything_can_be_renegotiated_to_itself(
    policies: list[dict[str, Any]],
    texts: list[tuple[str, str]],
    now: int,
    lowered: list[dict[str, Any]],
    lost: int,
) -> None:
    """Under any policies, at any instant, after policies were lowered and machines lost: the same
    expression again is accepted and every instance is held where it was."""
    plan = _filled(policies, texts)
    commit(plan, Advance(now))
    if lowered or lost:
        commit(plan, Reconfigure(_cluster([*policies, *lowered], lost)))
    before = _held(plan)
    for id_ in _live(plan):
        present = plan.reservation(id_)
        assert present is not None
        assert _renegotiate(plan, id_, present.expression), (id_, present.expression)
        assert _held(plan) == before


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(others=st.lists(_text(), min_size=1, max_size=3), **_CASES)
def test_an_update_swaps_or_leaves_all_as_it_was(
    policies: list[dict[str, Any]], texts: list[tuple[str, str]], now: int, others: list[str]
) -> None:
    """A swap changes that reservation's future alone; a refusal changes nothing at all."""
    plan = _filled(policies, texts)
    commit(plan, Advance(now))
    for id_ in _live(plan):
        for text in others:
            present = plan.reservation(id_)
            assert present is not None
            if present.state not in LIVE:
                break
            before, version = _held(plan), plan.version
            past = _until(plan, id_, now)
            if _renegotiate(plan, id_, text):
                number = [one.id for one in plan.reservations()].index(id_)
                changed = _held(plan)
                assert [x for i, x in enumerate(changed) if i != number] == [
                    x for i, x in enumerate(before) if i != number
                ]
                assert _until(plan, id_, now) == past
                assert plan.ledger.free.min() >= 0
            else:
                assert (_held(plan), plan.version) == (before, version)


def _until(plan: Plan, id_: str, now: int) -> list[int]:
    """Return what a reservation holds at each step before `now`."""
    held = [0] * now
    found = plan.reservation(id_)
    assert found is not None
    for atom in found.atoms:
        for start, end, bundles in atom.all_rows().tolist():
            for step in range(start, min(end, now)):
                held[step] += bundles
    return held

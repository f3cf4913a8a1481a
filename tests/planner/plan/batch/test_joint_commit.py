"""Degraded, restored, failed; and many changes judged as one."""

from __future__ import annotations

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import Code
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Conflict, Degrade, Fail, Refuse, Update
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.holding import without_after
from planner.reservations.state import State
from tests.builders import a_cluster, a_plan, a_request, ask, commit

GREE, EARLIEST = agent_named("gree"), agent_named("earliest")
TWO = "window(atom(<1 cpu>, 2, 2, 3, 6), 0, 10)"


def _plan() -> Plan:
    cluster = a_cluster().horizon(10).machines("m", 2, cpu=1).build()
    return a_plan(cluster).holding(a_request("a", TWO).on(cluster)).build()


def _degrade(plan: Plan, id_: str, reason: str = "m-1 is lost") -> Degrade:
    number = plan.table.number_of(id_)
    assert number is not None
    revision = int(plan.table.meta[number]["revision"])
    kept = without_after(plan.table.holding(number), plan.now)
    return Degrade(id_, revision, kept, reason, ({"expression": "void(<1 cpu>, 1)"},))


def test_a_degraded_reservation_keeps_its_past_and_its_reason() -> None:
    """Rows from now on are released; the reason and the offers can be read."""
    plan = _plan()
    commit(plan, Advance(8))
    commit(plan, _degrade(plan, "a"), at_ms=8000)
    found = plan.reservation("a")
    assert found is not None
    assert found.state is State.DEGRADED
    assert [atom.rows.tolist() for atom in found.atoms] == [[[7, 8, 2]]]
    assert found.degradation is not None
    assert found.degradation.reason == "m-1 is lost"
    assert found.to_json(plan.grid)["degradation"] == {
        "since": 8,
        "reason": "m-1 is lost",
        "offers": [{"expression": "void(<1 cpu>, 1)"}],
    }
    assert (plan.view().free[0] == 2000).all()
    assert found.history[-1].what == "degraded"


def test_a_degraded_reservation_comes_back_by_an_update_or_fails() -> None:
    """An update restores it under its own word; a failure ends it and says why."""
    plan = _plan()
    commit(plan, _degrade(plan, "a"))
    request = a_request("a", TWO).on(plan.cluster)
    result = GREE.plan([request], plan.view(), Limits())[0]
    commit(plan, Update("a", 2, request, result, "gree", "restored"))
    found = plan.reservation("a")
    assert found is not None
    assert (found.state, found.degradation) == (State.ACCEPTED, None)
    assert found.history[-1].what == "restored"
    commit(plan, _degrade(plan, "a"))
    commit(plan, Fail("a", None, "its window is over"))
    failed = plan.reservation("a")
    assert failed is not None
    assert failed.state is State.FAILED
    assert failed.history[-1].detail == "its window is over"
    assert plan.live_count(None, None) == 0


def test_more_cannot_be_kept_than_was_held() -> None:
    """A degradation is never a way to grow."""
    plan = _plan()
    text = "window(atom(<1 cpu>, 2, 2, 3, 6), 0, 5)"
    early = a_plan(plan.cluster).holding(a_request("a", text).on(plan.cluster)).build()
    kept = early.table.holding(0)
    outcome = plan.prepare([Degrade("a", 1, kept, "x")], plan.version).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.CONFLICT


def test_what_was_refused_can_be_admitted_again() -> None:
    """The refusal is forgotten with the admission, and only `anew` may do it."""
    plan = _plan()
    request = a_request("b", TWO).on(plan.cluster)
    commit(plan, Refuse(request, Code.CAPACITY, "no capacity"))
    result = GREE.plan([request], plan.view(), Limits())[0]
    outcome = plan.prepare([Admit(request, result, "gree")], plan.version).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.DUPLICATE_ID
    assert not commit(plan, Admit(request, result, "gree", anew=True)).conflicts
    assert plan.refusal("b") is None
    assert plan.reservation("b") is not None


def test_two_reservations_swap_places_only_jointly() -> None:
    """Neither can move first; together they can, and capacity is still judged."""
    cluster = a_cluster().horizon(6).machines("m", 2, cpu=1).build()
    text = "window(atom(<1 cpu>, 2, 2, 3, 6), 0, 6)"
    plan = a_plan(cluster).holding(a_request("a", text).on(cluster)).build()
    ask(plan, a_request("b", text).on(cluster))
    request = {name: a_request(name, text).on(cluster) for name in "ab"}
    empty = Plan(cluster, cluster.grid()).view()
    first = EARLIEST.plan([request["a"]], empty, Limits())[0]
    last = GREE.plan([request["b"]], empty, Limits())[0]
    swap = [Update("a", 1, request["a"], first, "x"), Update("b", 1, request["b"], last, "x")]
    assert len(plan.prepare(swap, plan.version).conflicts) == 2
    joint = plan.prepare(swap, plan.version, joint=True)
    assert joint.record is not None
    plan.apply(joint.record)
    assert (plan.view().free[0] == 0).all()
    both = [Update("a", 2, request["a"], first, "x"), Update("b", 2, request["b"], first, "x")]
    crowded = plan.prepare(both, plan.version, joint=True)
    assert crowded.record is None
    assert crowded.conflicts[0].code is Code.CAPACITY


def test_records_and_snapshots_keep_degradations() -> None:
    """A log through JSON and a state through bytes make the same Plan again."""
    plan = _plan()
    prepared = commit(plan, _degrade(plan, "a"))
    assert prepared.record is not None
    again = _plan()
    again.apply(CommitRecord.from_json(prepared.record.to_json()))
    stored = read_checkpoint(take_checkpoint(plan).encode())
    for other in (again, stored):
        found, wanted = other.reservation("a"), plan.reservation("a")
        assert found is not None
        assert wanted is not None
        assert found.to_json(plan.grid, history=True) == wanted.to_json(plan.grid, history=True)
        assert (other.view().free == plan.view().free).all()


def test_what_does_not_fit_is_reported_by_its_name() -> None:
    """A place that was found before others took it: the stage, what it takes, what is left."""
    cluster = a_cluster().horizon(10).machines("m", 2, cpu=1).build()
    text = "window(order(prep: atom(<1 cpu>, 1, 1, 3, 3), train: atom(<1 cpu>, 2, 2, 3, 6)), 0, 10)"
    late = a_request("late", text).on(cluster)
    result = GREE.plan([late], a_plan(cluster).build().view(), Limits())[0]
    outcome = _plan().prepare([Admit(late, result, "gree")], 0).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.detail == "train takes 2 cpu more at 7s from the origin; no cpu is left"
    assert outcome.binding is not None
    assert outcome.binding.name == "train"

"""The Plan: what is held, what is left, and what time does to both."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.metrics import measure
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Advance,
    Cancel,
    Close,
    Conflict,
    Reconfigure,
    Refuse,
    Update,
)
from planner.plan.records.commit_records import CommitRecord
from planner.plan.state import StaleVersionError
from planner.request import Request
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.plan import document_of
from tests.builders import RequestBuilder, a_cluster, a_plan, a_request, ask, commit
from tests.planner.plan_documents import EXAMPLE_RESERVATION, STAGES


def _gang(id_: str, height: int, length: int, start: int, end: int) -> RequestBuilder:
    """A gang of `height` for `length` steps within [start, end)."""
    work = height * length
    text = f"atom(<1 cpu>, {height}, {height}, {length}, {work})"
    return a_request(id_, f"window({text}, {start}, {end})")


def _free(plan: Plan) -> list[int]:
    """Free cores of the pool at each step."""
    return (plan.view().free[0] // 1000).tolist()


def _small(count: int = 4, horizon: int = 10) -> Cluster:
    return a_cluster().horizon(horizon).machines("m", count, cpu=1).build()


def test_an_empty_plan_offers_the_whole_cluster() -> None:
    """Nothing reserved, everything free, version 0."""
    plan = Plan(cluster := _small(), cluster.grid())
    assert _free(plan) == [4] * 10
    assert plan.version == 0
    assert plan.view().row_names == (("pool", "cpu"),)


def test_what_is_admitted_is_taken_from_what_is_free() -> None:
    """Three cores on [7, 10) leave one there."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 3, 0, 10).on(cluster)).build()
    assert _free(plan) == [4] * 7 + [1] * 3
    assert plan.version == 1


def test_a_reservation_reads_as_the_format_writes_it() -> None:
    """The example of the plan format, read back from the Plan's arrays."""
    cluster = a_cluster().build()
    plan = a_plan(cluster).holding(a_request("r1", STAGES).tenant("ads").on(cluster)).build()
    found = plan.reservation("r1")
    assert found is not None
    assert found.to_json(plan.grid) == EXAMPLE_RESERVATION


def test_a_choice_and_its_path_are_kept() -> None:
    """The option taken is known by the path of its `any`; the other holds nothing."""
    cluster = _small()
    text = "any(atom(<1 cpu>, 9, 9, 1, 9), atom(<1 cpu>, 2, 2, 3, 6))"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    found = plan.reservation("r")
    assert found is not None
    assert dict(found.choices) == {"": 1}
    assert [atom.path for atom in found.atoms] == ["1"]


def test_recurring_reservations_hold_every_occurrence() -> None:
    """Three daily runs are three allocations, each with its own path."""
    cluster = _small(horizon=30)
    text = "window(every(10, window(atom(<1 cpu>, 2, 2, 2, 4), 0, 5), times=3), 0, 30)"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    found = plan.reservation("r")
    assert found is not None
    entries = found.to_json(plan.grid)["atoms"]
    assert [entry["path"] for entry in entries] == ["0.0@0.0", "0.0@1.0", "0.0@2.0"]
    assert [entry["allocation"] for entry in entries] == [
        [[3, 5, 2]],
        [[13, 15, 2]],
        [[23, 25, 2]],
    ]
    assert [step for step, free in enumerate(_free(plan)) if free == 2] == [3, 4, 13, 14, 23, 24]


def test_labelled_atoms_take_from_their_machines_and_from_the_pool() -> None:
    """A row for the label exists because only some machines carry it."""
    cluster = (
        a_cluster().horizon(4).machines("a", 1, ("ssd",), cpu=1).machines("b", 2, cpu=1).build()
    )
    text = 'window(atom(<1 cpu>, 1, 1, 4, 4, on="ssd"), 0, 4)'
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    rows = dict(zip(plan.view().row_names, plan.view().free.tolist(), strict=True))
    assert rows["pool", "cpu"] == [2000] * 4
    assert rows["label:ssd", "cpu"] == [0] * 4
    assert ask(plan, a_request("s", text).on(cluster)).outcomes
    assert plan.refusal("s") is not None


def test_a_snapshot_stays_as_it_was() -> None:
    """What an agent reads does not move under it; the live view does."""
    cluster = _small()
    plan = Plan(cluster, cluster.grid())
    before = plan.snapshot()
    kept = before.free.copy()
    ask(plan, _gang("a", 3, 3, 0, 10).on(cluster))
    assert (before.free == kept).all()
    assert before.version == 0
    assert plan.snapshot().version == 1
    assert not (plan.view().free == kept).all()


def test_a_view_cannot_be_written() -> None:
    """Agents cannot change the Plan, not even by mistake."""
    plan = Plan(cluster := _small(), cluster.grid())
    with pytest.raises(ValueError, match="read-only"):
        plan.view().free[0, 0] = 1


def test_a_snapshot_costs_no_copy_until_the_plan_moves_on() -> None:
    """Snapshots share the profile; the writer copies, and only while one lives."""
    cluster = _small()
    plan = Plan(cluster, cluster.grid())
    first, second = plan.snapshot(), plan.snapshot()
    assert np.shares_memory(first.free, second.free)
    ledger = plan.ledger
    del first, second
    ask(plan, _gang("a", 1, 1, 0, 10).on(cluster))
    assert plan.ledger is ledger


def test_the_same_demand_is_the_same_object() -> None:
    """Agents may key on it."""
    plan = Plan(cluster := _small(), cluster.grid())
    bundle = cluster.nominal
    view = plan.view()
    assert view.demand(bundle, None, "t", "q") is view.demand(bundle, None, "t", "q")


def test_states_follow_the_clock() -> None:
    """accepted until the first step begins, active to the last, then completed."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 1, 3, 0, 8).on(cluster)).build()
    seen = []
    for now in (4, 5, 7, 8):
        commit(plan, Advance(now))
        found = plan.reservation("a")
        assert found is not None
        seen.append(found.state)
    assert seen == [State.ACCEPTED, State.ACTIVE, State.ACTIVE, State.COMPLETED]


def test_one_long_step_of_the_clock_is_as_good_as_many() -> None:
    """A reservation that began and ended meanwhile is completed."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 1, 3, 0, 8).on(cluster)).build()
    commit(plan, Advance(9))
    found = plan.reservation("a")
    assert found is not None
    assert found.state is State.COMPLETED
    assert plan.live_count(None, None) == 0


def test_time_does_not_go_back() -> None:
    """An earlier step is a conflict, and nothing changes."""
    plan = Plan(cluster := _small(), cluster.grid())
    commit(plan, Advance(5))
    prepared = commit(plan, Advance(4))
    assert isinstance(prepared.outcomes[0], Conflict)
    assert plan.now == 5


def test_the_horizon_rolls_on() -> None:
    """Columns of the past go, new ones come free, what is held stays where it is."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 3, 0, 10).on(cluster)).build()
    commit(plan, Advance(8, 18))
    view = plan.view()
    assert (view.first, view.grid.horizon) == (8, 18)
    assert _free(plan) == [1, 1] + [4] * 8
    later = _gang("b", 4, 2, 16, 18).on(cluster, plan.grid)
    ask(plan, later)
    assert _free(plan) == [1, 1] + [4] * 6 + [0, 0]


def test_a_cancelled_reservation_keeps_its_past() -> None:
    """From the present step on everything is released; the past stays and is shown."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 6, 0, 8).on(cluster)).build()
    commit(plan, Advance(5))
    commit(plan, Cancel("a"))
    found = plan.reservation("a")
    assert found is not None
    assert found.state is State.CANCELLED
    atom = found.to_json(plan.grid)["atoms"][0]
    assert atom["allocation"] == [[2, 5, 3]]
    assert atom["released"] == [[5, 8, 3]]
    assert _free(plan) == [4] * 5
    assert found.revision == 2


def test_a_reservation_cancelled_before_it_begins_holds_nothing() -> None:
    """All of it is released."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 6, 0, 8).on(cluster)).build()
    commit(plan, Cancel("a"))
    found = plan.reservation("a")
    assert found is not None
    assert found.to_json(plan.grid)["atoms"][0]["allocation"] == []
    assert _free(plan) == [4] * 10


def test_closing_releases_the_rest_and_completes() -> None:
    """The client is done early."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 6, 0, 8).on(cluster)).build()
    commit(plan, Advance(5))
    commit(plan, Close("a"))
    found = plan.reservation("a")
    assert found is not None
    assert (found.state, _free(plan)) == (State.COMPLETED, [4] * 5)


def test_cancelling_a_recurrence_keeps_past_occurrences() -> None:
    """Occurrences are cut one by one."""
    cluster = _small(horizon=30)
    text = "window(every(10, window(atom(<1 cpu>, 2, 2, 2, 4), 0, 5), times=3), 0, 30)"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    commit(plan, Advance(14))
    commit(plan, Cancel("r"))
    found = plan.reservation("r")
    assert found is not None
    held = {atom.path: atom.rows.tolist() for atom in found.atoms}
    assert held == {"0.0@0.0": [[3, 5, 2]], "0.0@1.0": [[13, 14, 2]], "0.0@2.0": []}
    assert _free(plan) == [4] * 16


def test_what_is_over_cannot_be_cancelled() -> None:
    """The table of transitions says no, with the state."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 6, 0, 8).on(cluster)).build()
    commit(plan, Cancel("a"))
    outcome = commit(plan, Cancel("a")).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.detail == "it is cancelled"


def test_an_endless_recurrence_gains_occurrences_as_the_horizon_rolls() -> None:
    """Each whole period that comes into the horizon gets its occurrence, where the others are."""
    cluster = a_cluster().horizon(30).max_period(10).machines("m", 4, cpu=1).build()
    text = "every(10, window(atom(<1 cpu>, 2, 2, 2, 4), 0, 5))"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    commit(plan, Advance(5, 35))
    commit(plan, Advance(10, 40))
    found = plan.reservation("r")
    assert found is not None
    assert found.atoms[0].shifts == (0, 10, 20, 30)
    assert found.state is State.ACTIVE
    busy = [step + 10 for step, free in enumerate(_free(plan)) if free == 2]
    assert busy == [13, 14, 23, 24, 33, 34]


def test_an_endless_recurrence_whose_machines_are_gone_gains_no_occurrence() -> None:
    """The clock continues; what was promised stays written."""
    builder = a_cluster().horizon(30).max_period(10)
    cluster = builder.machines("m", 4, cpu=2).build()
    text = "every(10, window(atom(<2 cpu>, 2, 2, 2, 4), 0, 5))"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    commit(plan, Reconfigure(builder.machines("m", 8, cpu=1).build()))
    assert not commit(plan, Advance(10, 40)).conflicts
    found = plan.reservation("r")
    assert found is not None
    assert found.atoms[0].shifts == (0, 10, 20)


def test_threads_may_meet_new_scopes_on_one_version() -> None:
    """Each sees all rows it asked for, filled, whatever the others do."""
    cluster = (
        a_cluster().machines("m", 4, cpu=1).policy("quota", tenant="*", limit={"cpu": 2}).build()
    )
    snapshot = Plan(cluster, cluster.grid()).snapshot()
    bundle = cluster.machines[0].resources

    def rows_of(tenant: int) -> list[int]:
        demand = snapshot.demand(bundle, None, f"t{tenant}", "default")
        return [int(snapshot.free[row].min()) for row in demand.rows]

    with ThreadPoolExecutor(8) as pool:
        assert set(map(tuple, pool.map(rows_of, range(400)))) == {(4000, 2000)}


def test_refusals_are_remembered_and_hold_nothing() -> None:
    """Code, detail and binding are kept; the id is taken."""
    cluster = _small()
    plan = Plan(cluster, cluster.grid())
    request = _gang("a", 4, 3, 0, 10).on(cluster)
    commit(plan, Refuse(request, Code.CAPACITY, "no capacity"))
    assert plan.refusals[0].code is Code.CAPACITY
    assert _free(plan) == [4] * 10
    outcome = ask(plan, request).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.DUPLICATE_ID


def test_a_new_description_of_the_cluster_is_a_commit() -> None:
    """Capacity follows, reservations stay, even where they no longer fit."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 3, 0, 10).on(cluster)).build()
    commit(plan, Reconfigure(_small(count=2)))
    assert _free(plan) == [2] * 7 + [-1] * 3
    assert plan.reservation("a") is not None


def test_an_instant_that_is_over_committed_refuses_nothing_elsewhere() -> None:
    """A loss at one step is no reason to say no at another."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 3, 3, 0, 10).on(cluster)).build()
    commit(plan, Reconfigure(_small(count=2)))
    ask(plan, _gang("b", 2, 3, 0, 7).on(cluster))
    assert plan.reservation("b") is not None


def test_replaying_another_plans_records_out_of_order_is_misuse() -> None:
    """A record belongs to the version before it."""
    cluster = _small()
    plan = Plan(cluster, cluster.grid())
    with pytest.raises(StaleVersionError):
        plan.apply(CommitRecord(3, 0, ()))
    with pytest.raises(StaleVersionError):
        plan.prepare([], based_on=7)


def _record_texts(plan: Plan, changes: list[list[object]]) -> list[str]:
    texts = []
    for batch in changes:
        prepared = plan.prepare(batch, plan.version)  # type: ignore[arg-type]
        if prepared.record is not None:
            texts.append(json.dumps(prepared.record.to_json()))
            plan.apply(prepared.record)
    return texts


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(1, 4)), max_size=14))
def test_replay_makes_the_same_plan(moves: list[tuple[int, int, int]]) -> None:
    """Any run of admissions, updates, cancellations, closings and ticks: its log, as JSON, makes
    an equal Plan with the same free profile, and the free profile is capacity less what is held."""
    cluster = _small(horizon=20)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("gree")
    texts: list[str] = []
    for number, (kind, which, size) in enumerate(moves):
        ids = list(plan.table.ids())
        chosen = ids[which % len(ids)] if ids else ""
        if kind in (0, 1) or not ids:
            request = _gang(f"r{number}", size, 2, plan.now, 20).on(cluster, plan.grid)
            result = agent.plan([request], plan.view(), Limits())[0]
            change = _answer(request, result)
        elif kind == 2:
            change = Cancel(chosen)
        elif kind == 3:
            change = Close(chosen)
        else:
            change = Advance(min(plan.now + 1, 19))
        texts += _record_texts(plan, [[change]])
    again = Plan.replay(
        cluster, cluster.grid(), [CommitRecord.from_json(json.loads(text)) for text in texts]
    )
    assert [r.to_json(plan.grid, history=True) for r in again.reservations()] == [
        r.to_json(plan.grid, history=True) for r in plan.reservations()
    ]
    assert (again.view().free == plan.view().free).all()
    assert (plan.view().free >= 0).all()
    assert validate(_document(plan), grid=plan.grid) == []


def _answer(request: Request, result: PlacementResult) -> Admit | Refuse:
    if result.code is None:
        return Admit(request, result, "gree")
    return Refuse(request, result.code, result.detail, result.binding)


def _document(plan: Plan) -> dict[str, object]:
    """The plan as a document, metrics left to the validator's own reading."""
    metrics = measure([], plan.cluster.nominal, plan.grid.horizon)
    document = document_of(plan, "gree", "submitted", metrics).to_json()
    del document["metrics"]
    return document


def test_an_update_to_itself_is_always_accepted() -> None:
    """Even when the cluster is full, and even when it is over-committed."""
    cluster = _small()
    request = _gang("a", 4, 10, 0, 10).on(cluster)
    plan = a_plan(cluster).holding(request).build()
    commit(plan, Reconfigure(_small(count=2)))
    agent = agent_named("gree")
    result = agent.plan([request], Plan(cluster, cluster.grid()).view(), Limits())[0]
    prepared = commit(plan, Update("a", 1, request, result, "gree"))
    assert not prepared.conflicts
    found = plan.reservation("a")
    assert found is not None
    assert found.revision == 2


def test_an_update_swaps_or_leaves_all_as_it_was() -> None:
    """What does not fit is a conflict, and the old rows stand."""
    cluster = _small()
    plan = (
        a_plan(cluster)
        .holding(_gang("a", 2, 4, 0, 10).on(cluster), _gang("b", 2, 10, 0, 10).on(cluster))
        .build()
    )
    before = _free(plan)
    larger = _gang("a", 3, 4, 0, 10).on(cluster)
    agent = agent_named("gree")
    result = agent.plan([larger], Plan(cluster, cluster.grid()).view(), Limits())[0]
    outcome = commit(plan, Update("a", 1, larger, result, "gree")).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.CAPACITY
    assert outcome.binding is not None
    assert (outcome.binding.needed, outcome.binding.free) == (1000, 0)
    assert _free(plan) == before
    smaller = _gang("a", 2, 2, 0, 10).on(cluster)
    result = agent.plan([smaller], plan.view_without(["a"]), Limits())[0]
    assert not commit(plan, Update("a", 1, smaller, result, "gree")).conflicts
    assert sum(_free(plan)) == sum(before) + 4


def test_an_update_that_rewrites_the_past_is_refused() -> None:
    """What was held before now is history: `past_changed`."""
    cluster = _small()
    plan = a_plan(cluster).holding(_gang("a", 2, 6, 0, 8).on(cluster)).build()
    commit(plan, Advance(4))
    later = _gang("a", 2, 4, 5, 10).on(cluster)
    result = agent_named("gree").plan([later], plan.view(), Limits())[0]
    outcome = commit(plan, Update("a", 1, later, result, "gree")).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is Code.PAST_CHANGED


def test_many_updates_do_not_grow_the_plan() -> None:
    """Rows given up are reused sooner or later."""
    cluster = _small()
    request = _gang("a", 1, 2, 0, 10).on(cluster)
    plan = a_plan(cluster).holding(request).build()
    agent = agent_named("gree")
    result = agent.plan([request], plan.view_without(["a"]), Limits())[0]
    sizes = []
    for revision in range(1, 6000):
        commit(plan, Update("a", revision, request, result, "gree"))
        sizes.append(plan.table.nbytes())
    assert sizes[-1] <= 1.5 * max(sizes[:5000])
    assert _free(plan) == [4] * 8 + [3] * 2

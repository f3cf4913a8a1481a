"""The adapter on Plans small enough to follow by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.adaptation.adapter import _Answer, adapt, needs_adaptation
from planner.adaptation.result import Adaptation, Effect
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure, Relocate, Update
from planner.promise import PromiseLevel
from planner.renegotiation import renegotiation_of
from planner.reservations.slots import slots_of
from planner.reservations.state import State
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.planner.adaptation.events import (
    HORIZON,
    adapt_now,
    lose,
    small_cluster,
    violations,
    with_outages,
)


def _gang(height: int, length: int, start: int, end: int) -> str:
    return f"window(atom(<1 cpu>, {height}, {height}, {length}, {height * length}), {start}, {end})"


def _plan(machines: int, *sources: str, agent: str = "gree") -> Plan:
    cluster = small_cluster(machines)
    asked = [a_request(f"r{i}", one).on(cluster) for i, one in enumerate(sources)]
    return a_plan(cluster).placed_by(agent).holding(*asked).build()


def _rows(plan: Plan, id_: str) -> dict[str, list[list[int]]]:
    found = plan.reservation(id_)
    assert found is not None
    return {path: rows.tolist() for atom in found.atoms for path, rows in atom.occurrences()}


def _state(plan: Plan, id_: str) -> State:
    found = plan.reservation(id_)
    assert found is not None
    return found.state


def test_nothing_lost_nothing_done() -> None:
    """Machines that no one holds may go: no reservation is touched."""
    plan = _plan(4, _gang(2, 4, 0, 24))
    before = _rows(plan, "r0")
    assert lose(plan, (2, 0, 24)).changes == ()
    assert _rows(plan, "r0") == before
    assert not needs_adaptation(plan)


def test_what_can_wait_is_moved_and_nothing_is_dropped() -> None:
    """Two gangs of two side by side on four; with two lost, one goes before the other."""
    plan = _plan(4, _gang(2, 4, 0, 24), _gang(2, 4, 0, 24))
    found = lose(plan, (2, 16, 24))
    assert [one.fate for one in found.affected] == [Effect.MOVED]
    assert found.cost.dropped == 0
    assert violations(plan) == []
    moved = plan.reservation(found.affected[0].id)
    assert moved is not None
    assert moved.history[-1].what == "moved"
    assert moved.revision == 2


def test_what_was_planned_early_is_moved_no_later_than_it_has_to_be() -> None:
    """Of 24 steps the first three are lost: it has the next four, so that time is left after it."""
    plan = _plan(4, _gang(2, 4, 0, 24), agent="earliest")
    assert [one.fate for one in lose(plan, (4, 0, 3)).affected] == [Effect.MOVED]
    assert _rows(plan, "r0") == {"0": [[3, 7, 2]]}


def test_the_least_value_goes_though_it_came_first() -> None:
    """YARN would drop the newest; here the newest is worth more and stays."""
    cluster = small_cluster(4)
    old = a_request("old", _gang(2, 10, 0, 10)).on(cluster)
    new = a_request("new", _gang(2, 10, 0, 10)).weight(3).on(cluster)
    plan = a_plan(cluster).holding(old, new).build()
    found = lose(plan, (2, 0, 10))
    assert [(one.id, one.fate) for one in found.affected] == [("old", Effect.DEGRADED)]
    degraded = plan.reservation("old")
    assert degraded is not None
    assert degraded.degradation is not None
    assert "2 cpu is missing" in degraded.degradation.reason
    assert all(len(atom.rows) == 0 for atom in degraded.atoms)


def test_a_malleable_atom_moves_only_what_does_not_fit() -> None:
    """Six bundles on [0, 4) with two machines lost on [2, 4): four bundle-steps move, not 24."""
    text = "window(atom(<1 cpu>, 1, 6, 1, 24), 0, 12)"
    plan = _plan(6, text, agent="earliest")
    assert _rows(plan, "r0") == {"0": [[0, 4, 6]]}
    found = lose(plan, (2, 2, 4))
    assert found.affected[0].moved == pytest.approx(4 / 6)
    assert violations(plan) == []


def test_the_rest_of_what_has_begun_moves_for_what_lost_its_machine() -> None:
    """The gang needs both machines at 10; the second stage of what runs holds one, and can wait."""
    plan = _plan(2, _gang(2, 4, 10, 14))
    lose(plan, (1, 10, 14))
    assert _state(plan, "r0") is State.DEGRADED
    text = f"window(order({_gang(1, 3, 0, 10)}, {_gang(1, 4, 10, 24)}), 0, 24)"
    ask(plan, a_request("runs", text).on(plan.cluster), agent_named("earliest"))
    first, second = _rows(plan, "runs").values()
    assert (first, second) == ([[0, 3, 1]], [[10, 14, 1]])
    commit(plan, Advance(2))
    found = lose(plan)
    fates = {one.id: one.fate for one in found.affected}
    assert fates == {"r0": Effect.RESTORED, "runs": Effect.MOVED}
    assert _rows(plan, "r0") == {"0": [[10, 14, 2]]}
    begun, rest = _rows(plan, "runs").values()
    assert begun == first
    assert rest[0][0] >= 14
    assert violations(plan) == []


def test_a_gap_that_one_leaves_serves_two() -> None:
    """It is worth more than either of them, and less than both."""
    cluster = small_cluster(4)
    wide = a_request("wide", _gang(4, 4, 8, 12)).weight(0.75).on(cluster)
    two = [a_request(f"r{i}", _gang(2, 4, 0, 12)).on(cluster) for i in range(2)]
    plan = a_plan(cluster).placed_by("earliest").holding(wide, *two).build()
    assert [_rows(plan, one.id) for one in two] == [{"0": [[0, 4, 2]]}] * 2
    found = lose(plan, (4, 0, 8))
    fates = {one.id: one.fate for one in found.affected}
    assert fates == {"wide": Effect.DEGRADED, "r0": Effect.MOVED, "r1": Effect.MOVED}
    assert violations(plan) == []


def test_started_work_is_pinned_and_only_the_remainder_moves() -> None:
    """A lease taken at 0 runs to 6; the second stage, not begun, goes elsewhere."""
    stages = "atom(<1 cpu>, 2, 2, 6, 12), atom(<1 cpu>, 4, 4, 4, 16)"
    plan = _plan(4, f"window(order({stages}), 0, 24)", agent="earliest")
    commit(plan, Advance(2))
    first = _rows(plan, "r0")["0.0"]
    found = lose(plan, (2, 6, 14))
    assert [one.fate for one in found.affected] == [Effect.MOVED]
    after = _rows(plan, "r0")
    assert after["0.0"] == first == [[0, 6, 2]]
    assert after["0.1"][0][0] >= 14
    assert violations(plan) == []


def test_leases_in_force_break_only_when_their_machines_are_gone() -> None:
    """All machines lost: even started work goes, its past stays, and it says so.

    It has failed when its window has no time to begin again.
    """
    plan = _plan(2, _gang(2, 6, 0, 12), agent="earliest")
    commit(plan, Advance(2))
    lose(plan, (2, 2, 24))
    assert _state(plan, "r0") is State.DEGRADED
    assert _rows(plan, "r0") == {"0": [[0, 2, 2]]}
    for step, state in ((3, State.DEGRADED), (6, State.DEGRADED), (7, State.FAILED)):
        commit(plan, Advance(step))
        adapt_now(plan)
        assert _state(plan, "r0") is state


def test_a_broken_lease_fails_by_its_own_window() -> None:
    """The first gang has none of its lease and no time after step 6; the second has time left."""
    parts = f"{_gang(2, 6, 0, 12)}, {_gang(2, 4, 14, 24)}"
    plan = _plan(2, f"all({parts})", agent="earliest")
    commit(plan, Advance(2))
    lose(plan, (2, 2, 24))
    for step, state in ((6, State.DEGRADED), (7, State.FAILED)):
        commit(plan, Advance(step))
        adapt_now(plan)
        assert _state(plan, "r0") is state


def test_degraded_is_restored_when_machines_return() -> None:
    """No command needed: the same rows fit again, and the history says so."""
    plan = _plan(2, _gang(2, 6, 4, 12))
    lose(plan, (2, 0, 24))
    assert _state(plan, "r0") is State.DEGRADED
    assert needs_adaptation(plan)
    found = lose(plan)
    assert [one.fate for one in found.affected] == [Effect.RESTORED]
    assert _state(plan, "r0") is State.ACCEPTED
    restored = plan.reservation("r0")
    assert restored is not None
    assert [one.what for one in restored.history] == ["admitted", "degraded", "restored"]
    assert restored.degradation is None
    assert violations(plan) == []


def test_who_moved_frees_capacity_again_for_who_was_dropped() -> None:
    """The dear one took the only place of the cheap one; with machines back it goes elsewhere."""
    cluster = small_cluster(2)
    dear = a_request("dear", _gang(2, 4, 4, 12)).weight(5).on(cluster)
    cheap = a_request("cheap", _gang(2, 4, 8, 12)).on(cluster)
    plan = a_plan(cluster).placed_by("earliest").holding(dear, cheap).build()
    lose(plan, (2, 4, 8))
    assert _rows(plan, "dear") == {"0": [[8, 12, 2]]}
    degraded = plan.reservation("cheap")
    assert degraded is not None
    assert degraded.degradation is not None
    assert "more important" in degraded.degradation.reason
    found = lose(plan)
    assert {(one.id, one.fate) for one in found.affected} == {
        ("cheap", Effect.RESTORED),
        ("dear", Effect.MOVED),
    }
    assert violations(plan) == []


def test_degraded_fails_when_its_window_is_over() -> None:
    """Two steps before the deadline six steps of work have no way left."""
    plan = _plan(2, _gang(2, 6, 4, 12))
    lose(plan, (2, 0, 24))
    commit(plan, Advance(10))
    found = adapt_now(plan)
    assert [one.fate for one in found.affected] == [Effect.FAILED]
    failed = plan.reservation("r0")
    assert failed is not None
    assert failed.history[-1].detail


@pytest.mark.parametrize("offset", ["true", "false"])
def test_a_recurrence_loses_one_occurrence_at_a_time(offset: str) -> None:
    """The second of three runs finds no machines; the others stay where they are."""
    text = f"every(8, atom(<1 cpu>, 2, 2, 4, 8), times=3, same_offset={offset})"
    plan = _plan(2, text)
    before = _rows(plan, "r0")
    lose(plan, (2, 8, 16))
    after = _rows(plan, "r0")
    assert _state(plan, "r0") is State.DEGRADED
    assert after == {path: rows for path, rows in before.items() if path != "0@1"}
    lose(plan)
    assert _rows(plan, "r0") == before
    assert _state(plan, "r0") is State.ACCEPTED
    assert violations(plan) == []


@pytest.mark.parametrize("offset", ["true", "false"])
def test_a_recurrence_that_lost_a_run_for_good_says_which(offset: str) -> None:
    """Not all that was promised was held, so it failed; the reason counts the runs that were."""
    plan = _plan(2, f"every(8, atom(<1 cpu>, 2, 2, 4, 8), times=3, same_offset={offset})")
    lose(plan, (2, 8, 16))
    commit(plan, Advance(17))
    lose(plan)
    assert _state(plan, "r0") is State.DEGRADED, "its third run is still to come"
    commit(plan, Advance(HORIZON - 1, 2 * HORIZON))
    commit(plan, Advance(HORIZON))
    adapt_now(plan)
    assert _state(plan, "r0") is State.FAILED
    failed = plan.reservation("r0")
    assert failed is not None
    assert failed.history[-1].detail == (
        "2 of 3 runs were held; the one of the period that began at 8s from the "
        "origin found no machines"
    )


def test_an_endless_recurrence_outlives_a_lost_night() -> None:
    """One occurrence is gone for good; later ones, also past the old horizon, are held."""
    cluster = a_cluster().horizon(24).max_period(24).machines("m", 2, cpu=1).build()
    request = a_request("r", "every(6, atom(<1 cpu>, 2, 2, 2, 4))").on(cluster)
    plan = a_plan(cluster).holding(request).build()
    lose(plan, (2, 6, 12))
    assert _state(plan, "r") is State.DEGRADED
    assert sorted(_rows(plan, "r")) == ["0@0", "0@2", "0@3"]
    commit(plan, Advance(13, 36))
    found = adapt_now(plan)
    assert [one.fate for one in found.affected] == [Effect.REGAINED]
    assert sorted(_rows(plan, "r")) == ["0@0", "0@2", "0@3", "0@4", "0@5"]
    assert _state(plan, "r") is State.DEGRADED
    assert adapt_now(plan).changes == ()
    known = plan.reservation("r")
    assert known is not None
    assert [one.what for one in known.history] == ["admitted", "degraded", "regained"]


def test_a_free_occurrence_moves_alone() -> None:
    """Where occurrences are free in their periods, one goes elsewhere in its own."""
    text = "every(8, atom(<1 cpu>, 2, 2, 4, 8), times=3, same_offset=false)"
    plan = _plan(2, text)
    before = _rows(plan, "r0")
    lose(plan, (2, 12, 16))
    after = _rows(plan, "r0")
    assert _state(plan, "r0") is State.ACCEPTED
    assert after == before | {"0@1": [[8, 12, 2]]}
    assert violations(plan) == []


def test_offers_of_a_degraded_reservation_are_accepted() -> None:
    """Sent back as a renegotiation in the version it names, an offer is placed."""
    plan = _plan(4, _gang(4, 6, 4, 12))
    lose(plan, (2, 0, 24))
    degraded = plan.reservation("r0")
    assert degraded is not None
    assert degraded.degradation is not None
    assert degraded.degradation.offers
    offer = degraded.degradation.offers[0]
    assert offer["at_version"] == plan.version
    request = a_request("r0", offer["expression"]).on(plan.cluster, plan.grid)
    result = renegotiation_of(plan, "r0", request).place(agent_named("gree-l"), Limits())
    assert result.placed
    assert not commit(plan, Update("r0", degraded.revision, request, result, "gree-l")).conflicts
    assert _state(plan, "r0") is State.ACCEPTED


def test_labels_and_fit_caps_are_capacity_too() -> None:
    """Ten plain machines do not help who needs the one with the label, or the large one."""
    builder = a_cluster().horizon(24).machines("plain", 10, cpu=1)
    cluster = builder.machines("big", 2, ("ssd",), cpu=4).build()
    ssd = a_request("ssd", 'window(atom(<1 cpu>, 8, 8, 4, 32, on="ssd"), 0, 8)').on(cluster)
    wide = a_request("wide", "window(atom(<4 cpu>, 2, 2, 4, 8), 8, 16)").on(cluster)
    plan = a_plan(cluster).holding(ssd, wide).build()
    lost = Outage("big", (1,), 0, 24_000)
    commit(plan, Reconfigure(replace(cluster, outages=(lost,))))
    found = adapt_now(plan)
    assert {one.id for one in found.of(Effect.DEGRADED)} == {"ssd", "wide"}
    assert violations(plan) == []


def test_what_would_be_is_asked_without_changing_anything() -> None:
    """The same answer on a layout of other machines, and the Plan as it was."""
    plan = _plan(4, _gang(2, 4, 0, 24), _gang(2, 4, 0, 24))
    version, free = plan.version, plan.view().free.copy()
    cluster = with_outages(plan.cluster, (2, 16, 24))
    would = adapt(plan, Limits(work=5), cluster)
    assert plan.version == version
    assert (plan.view().free == free).all()
    did = lose(plan, (2, 16, 24))
    assert [(one.id, one.fate) for one in would.affected] == [
        (one.id, one.fate) for one in did.affected
    ]


def _machine(plan: Plan, id_: str) -> int:
    found = plan.reservation(id_)
    assert found is not None
    assert found.atoms[0].slots is not None
    return int(found.atoms[0].slots[0, 3])


def _claims(plan: Plan, id_: str, machine: int) -> Relocate:
    """Return a relocation of a reservation to a machine, whatever is there."""
    number = plan.table.number_of(id_)
    assert number is not None
    slots = tuple(
        slots_of([[start, end, n, machine] for start, end, n, _ in atom.slots.tolist()])
        for atom in plan.table.holding(number).atoms
        if atom.slots is not None
    )
    return Relocate(id_, int(plan.table.meta[number]["revision"]), slots)


def test_what_the_plan_does_not_take_is_degraded_with_its_owner_informed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that gives one of two a machine that another has: the other change is made."""
    cluster = replace(small_cluster(4), promise=PromiseLevel.PLACED)
    requests = [a_request(id_, _gang(1, 4, 4, 8)).on(cluster) for id_ in ("a", "b", "c")]
    plan = a_plan(cluster).holding(*requests).build()
    (free,) = set(range(4)) - {_machine(plan, one.id) for one in requests}
    outage = Outage("m", (_machine(plan, "b"),), 0, HORIZON * 1000)
    commit(plan, Reconfigure(replace(cluster, outages=(outage,))))
    wrong = (_claims(plan, "a", free), _claims(plan, "b", _machine(plan, "c")))
    answer = Adaptation(wrong, based_on=plan.version)
    monkeypatch.setattr(_Answer, "adaptation", lambda _self, _waiting: answer)

    found = adapt(plan)

    assert [one.id for one in found.refused] == ["b"]
    assert [(one.id, one.fate) for one in found.affected] == [("b", Effect.DEGRADED)]
    assert found.cost.dropped == round(4 / 3600, 6)
    prepared = plan.prepare(found.changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    assert {one.id: one.state for one in plan.reservations()} == {
        "a": State.ACCEPTED,
        "b": State.DEGRADED,
        "c": State.ACCEPTED,
    }
    assert (_machine(plan, "a"), violations(plan)) == (free, [])

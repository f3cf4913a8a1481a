"""A better plan lowers no promise, keeps pins and frozen rows, and is taken whole or not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.cluster.policy import RequestLimits
from planner.cluster.policy import Scope as PolicyScope
from planner.optimization.objective import Objective, Weights
from planner.optimization.optimizer import optimize
from planner.optimization.result import Optimized, OptimizeOptions, OptimizeProgress, OptimizeScope
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Cancel,
    Reconfigure,
    Refuse,
    UncompiledRequest,
    Update,
)
from planner.reservations.rows import split
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.plan import document_of
from planner.workload.reload import metrics_of, plan_of_document
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.planner.adaptation.events import lose, plans, with_outages
from tests.planner.optimization.small_plans import two_in_the_way

_SLOW = settings(max_examples=15)
_SEARCH = OptimizeOptions(Limits(work=25, seed=1), solver="")


def _rows(plan: Plan) -> dict[str, dict[str, list[list[int]]]]:
    return {
        one.id: {path: rows.tolist() for atom in one.atoms for path, rows in atom.occurrences()}
        for one in plan.reservations()
    }


def _apply(plan: Plan, found: Optimized) -> None:
    if found.changes:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)


def _violations(plan: Plan) -> list[str]:
    body = document_of(plan, "x", "submitted", metrics_of(plan)).to_json()
    return [f"{one.where}: {one.detail}" for one in validate(body, grid=plan.grid)]


@_SLOW
@given(plans(), st.integers(0, 12), st.booleans(), st.data())
def test_no_promise_is_lowered_and_what_is_fixed_stays(
    plan: Plan, frozen: int, lexicographic: bool, data: st.DataObject
) -> None:
    """Accepted stay accepted; pins keep every row, all keep those before `frozen_until`."""
    before = _rows(plan)
    pins = tuple(one for one in before if data.draw(st.booleans()))
    later = {one.id for one in plan.reservations() if one.atoms}
    held = {one for one in pins if one in later and _ends(before[one]) > frozen}
    scope = OptimizeScope(frozen, tuple(sorted(held)), admit_refused=True)
    goal = Objective(lexicographic=lexicographic)
    effort = replace(_SEARCH, solver=data.draw(st.sampled_from(["", "exact"])))
    found = optimize(plan, goal, scope, effort)
    assert found.conflict is None
    assert found.value <= found.bound + 1e-6
    states = {one.id: one.expression for one in plan.reservations()}
    refused = [one.id for one in plan.refusals]
    _apply(plan, found)
    assert _violations(plan) == []
    admitted = {one.request.id for one in found.changes if isinstance(one, Admit)}
    assert [one.id for one in found.left_out] == [one for one in refused if one not in admitted]
    # What ended before `frozen` counts in the Plan and not for the optimiser.
    assert metrics_of(plan).value >= found.value - 1e-6
    assert frozen or metrics_of(plan).value == pytest.approx(found.value)
    after = _rows(plan)
    for id_, expression in states.items():
        known = plan.reservation(id_)
        assert known is not None
        assert known.state in (State.ACCEPTED, State.ACTIVE)
        assert known.expression == expression
        assert _until(after[id_], frozen) == _until(before[id_], frozen)
    for id_ in held:
        assert after[id_] == before[id_]


def _ends(rows: dict[str, list[list[int]]]) -> int:
    return max((row[1] for held in rows.values() for row in held), default=0)


def _until(rows: dict[str, list[list[int]]], step: int) -> dict[str, list[list[int]]]:
    import numpy as np

    cut = {
        path: split(np.array(held, dtype=np.int64).reshape(-1, 3), step)[0].tolist()
        for path, held in rows.items()
    }
    return {path: held for path, held in cut.items() if held}


@_SLOW
@given(plans())
def test_the_same_seed_gives_the_same_plan_and_never_a_worse_one(plan: Plan) -> None:
    """Two runs agree, and the score does not rise."""
    first = optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH)
    second = optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH)
    assert first.to_json() == second.to_json()
    assert first.after.rejected <= first.before.rejected + 1e-9


@_SLOW
@given(plans(), st.integers(1, 5), st.integers(0, 12))
def test_conflicting_pins_are_the_fewest_that_do_not_fit(plan: Plan, lost: int, start: int) -> None:
    """Brute force over all sets of pins finds none that is smaller."""
    commit(plan, Reconfigure(with_outages(plan.cluster, (lost, start, 20))))
    pins = tuple(one.id for one in plan.reservations() if one.atoms)
    found = optimize(
        plan, None, OptimizeScope(pins=pins), OptimizeOptions(Limits(work=0), solver="")
    ).conflict
    smallest = next(
        (
            len(chosen)
            for count in range(1, len(pins) + 1)
            for chosen in itertools.combinations(pins, count)
            if not _fit(plan, chosen)
        ),
        None,
    )
    assert (found is None) == (smallest is None)
    if found is not None:
        assert len(found.pins) == smallest
        assert not _fit(plan, found.pins)
        assert found.detail


def _fit(plan: Plan, chosen: tuple[str, ...]) -> bool:
    """Hold the rows of `chosen` alone on the machines there are."""
    alone = Plan(plan.cluster, plan.grid)
    for one in chosen:
        number = plan.table.number_of(one)
        assert number is not None
        for atom in plan.table.holding(number).atoms:
            demand = alone.ledger.demand(atom.bundle, atom.label, "t", "q")
            alone.ledger.take([(demand, atom.all_rows(), 1)])
    return bool((alone.view().free >= 0).all())


def test_a_refused_request_comes_in_when_someone_frees_capacity() -> None:
    """Only one way holds both; the refusal is gone, the reservation is there, all is proven."""
    plan, _ = two_in_the_way()
    assert plan.refusal("b") is not None
    effort = OptimizeOptions(Limits(work=60, seed=1), solver="milp")
    without = optimize(plan, None, OptimizeScope(), effort)
    assert not any(isinstance(one, Admit) for one in without.changes)
    found = optimize(
        plan, Objective(Weights(falls=0, cost=0)), OptimizeScope(admit_refused=True), effort
    )
    assert found.gap == 0
    _apply(plan, found)
    assert plan.refusal("b") is None
    assert plan.reservation("b") is not None
    assert _violations(plan) == []


def test_a_pin_in_the_way_keeps_the_request_out() -> None:
    """The same plan with `a` pinned: nothing changes."""
    plan, _ = two_in_the_way()
    found = optimize(plan, None, OptimizeScope(pins=("a",), admit_refused=True), _SEARCH)
    assert found.changes == ()
    with pytest.raises(KeyError):
        optimize(plan, None, OptimizeScope(pins=("zz",)), _SEARCH)


def test_changes_are_merged_where_they_still_fit_and_refused_where_not() -> None:
    """A cancellation elsewhere does not matter; another reservation in the new place does."""
    plan, cluster = two_in_the_way()
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH)
    assert found.changes
    ask(plan, a_request("c", "window(atom(<1 cpu>, 1, 1, 1, 1), 0, 2)").on(cluster))
    assert plan.prepare(found.changes, found.based_on, joint=True).record is not None
    ask(plan, a_request("d", "window(atom(<1 cpu>, 1, 1, 4, 4), 4, 8)").on(cluster))
    assert plan.reservation("d") is not None
    late = plan.prepare(found.changes, found.based_on, joint=True)
    assert late.record is None
    assert late.conflicts[0].binding is not None
    assert any(isinstance(one, Update) and one.id == "a" for one in found.changes)
    commit(plan, Cancel("d"))
    commit(plan, Cancel("a"))
    assert plan.prepare(found.changes, found.based_on, joint=True).record is None


def test_what_is_degraded_keeps_what_it_still_holds() -> None:
    """A recurrence that lost a run holds the others: no one is let in on their machines."""
    cluster = a_cluster().horizon(24).machines("m", 2, cpu=1).build()
    text = "every(8, atom(<1 cpu>, 2, 2, 8, 16), times=3)"
    plan = a_plan(cluster).holding(a_request("a", text).on(cluster)).build()
    lose(plan, (2, 8, 16))
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 8, 16), 16, 24)").on(cluster))
    assert plan.refusal("b") is not None
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH)
    assert not any(isinstance(one, Admit) for one in found.changes)
    _apply(plan, found)
    assert sorted(_rows(plan)["a"]) == ["0@0", "0@2"]


def test_cheap_steps_are_taken_where_cost_counts() -> None:
    """With a price on the late half, work moves to the early one, as far as weights say."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1)
    priced = type(cluster)({**cluster.document, "prices": [{"start": 6, "end": 12, "factor": 3}]})
    built = priced.build()
    plan = (
        a_plan(built)
        .holding(a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 12)").on(built))
        .build()
    )
    dear = Objective(Weights(churn=0, falls=0, cost=1))
    found = optimize(
        plan, dear, OptimizeScope(), OptimizeOptions(Limits(work=40, seed=2), solver="")
    )
    assert found.after.cost < found.before.cost
    kept = optimize(plan, Objective(lexicographic=True), OptimizeScope(), _SEARCH)
    assert kept.changes == ()


def test_a_stop_keeps_the_best_so_far_and_says_so() -> None:
    """Stopped before the first trial, the plan is as it was and the status says why."""
    plan, _ = two_in_the_way()
    effort = OptimizeOptions(Limits(work=50, stop=lambda: True), solver="")
    found = optimize(plan, None, OptimizeScope(admit_refused=True), effort)
    assert (found.changes, found.status) == ((), "stopped")


@_SLOW
@given(plans())
def test_a_plan_file_reads_back_as_the_same_plan(plan: Plan) -> None:
    """Document to Plan to document: reservations, refusals and figures are the same."""
    document = document_of(plan, "x", "submitted", metrics_of(plan))
    again = plan_of_document(document)
    second = document_of(again, "x", "submitted", metrics_of(again))
    assert second.reservations == document.reservations
    assert [one["id"] for one in second.refusals] == [one["id"] for one in document.refusals]
    assert second.metrics == document.metrics
    assert (again.view().free == plan.view().free).all()


def test_weights_below_zero_are_refused() -> None:
    """A weight is 0 or more and finite."""
    with pytest.raises(ValueError, match="churn"):
        Weights(churn=-1)


def test_a_plan_that_holds_everything_is_proven_in_order() -> None:
    """Where all that is asked is held where it was, no plan is better, and no trial is made."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    request = a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 12)").on(cluster)
    plan = a_plan(cluster).holding(request).build()
    found = optimize(plan, Objective(lexicographic=True), OptimizeScope(), _SEARCH)
    assert (found.status, found.trials, found.gap, found.changes) == ("optimal", 0, 0.0, ())


def test_every_better_plan_is_reported_with_value_bound_and_source() -> None:
    """The first word is the plan itself; values never fall, gaps never rise."""
    plan, _ = two_in_the_way()
    told: list[OptimizeProgress] = []
    effort = OptimizeOptions(Limits(work=60, seed=1), solver="", tell=told.append)
    optimize(plan, None, OptimizeScope(admit_refused=True), effort)
    assert told[0].source == "plan"
    assert told[-1].value > told[0].value
    assert [one.gap for one in told] == sorted((one.gap for one in told), reverse=True)


def test_who_is_left_out_is_named_with_a_code() -> None:
    """Too large for any machine, one too many for a policy, no capacity: each says which."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    few = RequestLimits("few", PolicyScope("t", None), max_count=2)
    plan = Plan(replace(cluster, policies=(few,)), cluster.grid())
    flexible = "window(atom(<1 cpu>, 1, 1, 2, 2), 0, 12)"
    for name in ("a", "b"):
        ask(plan, a_request(name, flexible).tenant("t").on(plan.cluster))
    count = a_request("c", flexible).tenant("t").on(plan.cluster)
    room = a_request("d", "window(atom(<1 cpu>, 2, 2, 12, 24), 0, 12)").tenant("u").on(plan.cluster)
    commit(plan, Refuse(count, Code.COUNT_LIMIT, "-"), Refuse(room, Code.CAPACITY, "-"))
    large = UncompiledRequest(
        "e", "u", "default", 0, 1.0, 0, "window(atom(<9 cpu>, 1, 1, 2, 2), 0, 12)"
    )
    commit(plan, Refuse(large, Code.UNSATISFIABLE, "-"))
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH)
    told = {one.id: (one.code, one.detail) for one in found.left_out}
    assert {id_: code for id_, (code, _) in told.items()} == {
        "c": Code.COUNT_LIMIT, "d": Code.CAPACITY, "e": Code.UNSATISFIABLE,
    }  # fmt: skip
    assert "policy few allows 2" in told["c"][1]
    assert "needs at least 2 cpu at once" in told["d"][1]
    assert "9 cpu is more than any machine has" in told["e"][1]
    assert found.to_json()["left_out"][0] == {
        "id": "c",
        "code": "count_limit",
        "detail": told["c"][1],
    }
    assert optimize(plan, None, OptimizeScope(), _SEARCH).left_out == ()

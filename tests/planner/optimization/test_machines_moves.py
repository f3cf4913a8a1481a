"""Optimisation that sees machines: it moves what scatters them, and its diff can be applied."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.optimization.codec import change_to_json, changes_from_json
from planner.optimization.feasible_part import feasible_part
from planner.optimization.optimizer import optimize
from planner.optimization.result import Optimized, OptimizeOptions, OptimizeScope
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse, Relocate, Update
from planner.promise import PromiseLevel
from planner.reservations.slots import slots_of
from planner.validation.validate import validate
from tests.builders import a_cluster, a_request, ask, commit
from tests.planner.optimization.small_plans import scattered
from tests.planner.plan.plan_json import plan_json

SCOPE = OptimizeScope(admit_refused=True)
EFFORT = OptimizeOptions(Limits(work=200), solver="")


def narrowed() -> tuple[Plan, Optimized]:
    """A wide atom whose lease may stand early or late, and one refused that needs it early."""
    built = a_cluster().step("10s").horizon("1m").machines("m", 2, cpu=4).build()
    cluster = replace(built, promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("earliest")
    for name, text in (
        ("a", "window(atom(<3 cpu>, 1, 1, 30s, 30s), 0, 1m)"),
        ("b", "window(atom(<3 cpu>, 1, 1, 30s, 30s), 0, 1m)"),
        ("c", "window(atom(<2 cpu>, 1, 1, 30s, 30s), 0, 30s)"),
    ):
        request = a_request(name, text).on(cluster)
        result = agent.plan([request], plan.view(), Limits())[0]
        for conflict in commit(plan, Admit(request, result, "earliest")).conflicts:
            commit(plan, Refuse(request, conflict.code, conflict.detail, conflict.binding))
    return plan, optimize(plan, scope=SCOPE, effort=EFFORT)


def test_slots_that_come_with_an_admission_are_taken() -> None:
    """Both stand on the machines that were named."""
    plan = scattered()
    found = {one.id: one.atoms[0].slots for one in plan.reservations()}
    assert {name: None if s is None else s.tolist() for name, s in found.items()} == {
        "a": [[0, 6, 1, 0]],
        "b": [[0, 6, 1, 1]],
    }


def test_one_moves_to_another_machine_so_that_a_larger_one_has_its_own() -> None:
    """Nobody can move in time; one of the small ones joins the other, and the diff is applied."""
    plan = scattered()
    found = optimize(plan, scope=SCOPE, effort=EFFORT)
    written = json.loads(json.dumps([change_to_json(one, plan.cluster) for one in found.changes]))
    changes, strange = changes_from_json(written, plan)
    assert not strange
    assert {type(one) for one in changes} == {Admit, Relocate}
    prepared = plan.prepare(changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    assert plan.reservation("c") is not None
    part = feasible_part(scattered(), [one for one in changes if isinstance(one, Admit)])
    assert not part.kept


def test_one_moves_in_time_so_that_machines_hold_another() -> None:
    """Totals had room for all three; machines have it once one of the first two begins later."""
    plan, found = narrowed()
    assert {type(one) for one in found.changes} == {Admit, Update}
    assert found.machine_loss is None
    prepared = plan.prepare(found.changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    third = plan.reservation("c")
    assert third is not None
    assert third.atoms[0].slots is not None


def test_slots_are_written_and_read_with_the_changes() -> None:
    """As JSON and back they name the same machines; on other machines they are forgotten."""
    plan, found = narrowed()
    written = json.loads(json.dumps([change_to_json(one, plan.cluster) for one in found.changes]))
    changes, strange = changes_from_json(written, plan)
    assert not strange
    for before, after in zip(found.changes, changes, strict=True):
        assert isinstance(before, Admit | Update)
        assert isinstance(after, Admit | Update)
        assert before.slots is not None
        assert after.slots is not None
        assert [one.tolist() for one in before.slots if one is not None] == [
            one.tolist() for one in after.slots if one is not None
        ]
    other = Plan(
        replace(plan.cluster, machines=(replace(plan.cluster.machines[0], count=3),)), plan.grid
    )
    (read, *_), _ = changes_from_json(written, _with_the_same(plan, other))
    assert isinstance(read, Admit | Update)
    assert read.slots is None


def _with_the_same(plan: Plan, other: Plan) -> Plan:
    """Return a copy of a Plan on the machines of another."""
    twin = plan.copy()
    twin.cluster = other.cluster
    return twin


def test_taken_machines_are_looked_for_again() -> None:
    """Slots that are taken by now are forgotten: the Plan finds others at the same times."""
    plan, found = narrowed()
    changes = [
        replace(one, slots=tuple(slots_of([[0, 6, 9, 0]]) for _ in one.slots))
        if isinstance(one, Admit | Update) and one.slots is not None
        else one
        for one in found.changes
    ]
    part = feasible_part(plan, changes)
    assert len(part.kept) == len(changes)
    assert not part.left_out


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_what_a_search_finds_on_machines_the_plan_takes_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever went and came back to its times may have come back to other machines."""
    draw = random.Random(seed)
    built = a_cluster().step("1m").horizon("3h").machines("m", 6, cpu=4).build()
    cluster = replace(built, promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    for number in range(60):
        cores, height, lease = draw.randint(1, 3), draw.randint(1, 6), draw.randint(5, 30)
        start = draw.randint(0, 100)
        atom = f"atom(<{cores} cpu>, {draw.choice((1, height))}, {height}, {lease}m, "
        end = start + lease + draw.randint(0, 40)
        text = f"window({atom}{height * lease}m), {start}m, {end}m)"
        ask(plan, a_request(f"r{number}", text).on(cluster), agent_named("gree-l"))

    def none_left_out(*_: object) -> object:
        raise AssertionError("the Plan does not take what the draft holds")

    monkeypatch.setattr("planner.optimization.optimizer.feasible_part", none_left_out)
    found = optimize(plan, scope=SCOPE, effort=EFFORT)
    admitted = {one.request.id for one in found.changes if isinstance(one, Admit)}
    assert admitted
    prepared = plan.prepare(found.changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record, prepared.takings)
    held = {one.id for one in plan.reservations()}
    assert admitted <= held
    assert not validate(plan_json(plan))

"""What others use of single machines is taken off their capacity, and off nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.machines.room import MachineRoom
from planner.plan.batch.making_way import units_of
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from planner.promise import PromiseLevel
from planner.reservations.state import State
from planner.validation.validate import validate
from rdl.resources import Resources
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.planner.adaptation.events import adapt_now, violations
from tests.planner.plan.plan_json import plan_json

#: Two machines of 4 cores, and a core and a half of the second used by others.
WHOLE = a_cluster().horizon(24).machines("m", 2, cpu=4).build()
WHOLE = replace(WHOLE, promise=PromiseLevel.PLACED)
SOME = Resources.of({"cpu": 1500})
LESS = replace(WHOLE, taken=(("m-1", SOME),))
CORE = Resources.of({"cpu": 1000})


def _plan(cluster: Cluster, *sources: str) -> Plan:
    asked = [a_request(f"r{i}", one).on(cluster) for i, one in enumerate(sources)]
    return a_plan(cluster).placed_by("earliest").holding(*asked).build()


def _gang(cores: int, count: int) -> str:
    return f"window(atom(<{cores} cpu>, {count}, {count}, 4, {4 * count}), 0, 24)"


def test_totals_and_bundles_are_less_while_the_machine_is_up() -> None:
    """In an outage of the machine nothing is taken off twice."""
    away = replace(LESS, outages=(Outage("m", (1,), 4000, 8000),))
    calendar = calendar_of(away, 0, 24)
    assert calendar.dense(calendar.capacity("cpu"))[[0, 4, 8]].tolist() == [6500, 4000, 6500]
    assert calendar.dense(calendar.fit(CORE))[[0, 4, 8]].tolist() == [6, 4, 6]


def test_a_machine_holds_what_is_left_of_it() -> None:
    room = MachineRoom(LESS, LESS.grid(), 0)
    assert room.count(0, 24, CORE) == 6
    assert units_of(LESS, [0], [CORE]).tolist() == [4, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        (
            (("m-1", Resources.of({"cpu": 9000, "gpu": 1})),),
            (("m-1", Resources.of({"cpu": 4000})),),
        ),
        ((("m-2", SOME), ("n-0", SOME), ("m", SOME), ("m-01", SOME)), ()),
        ((("m-0", Resources.of({})),), ()),
    ],
)
def test_only_what_machines_have_is_taken(taken: object, found: object) -> None:
    assert replace(WHOLE, taken=taken).taken == found  # type: ignore[arg-type]


def test_it_is_written_and_read_back() -> None:
    assert cluster_from_json(cluster_to_json(LESS), "the test") == LESS


def test_promises_move_only_as_far_as_they_must() -> None:
    """Of two on the second machine, one has a place beside what is taken."""
    plan = _plan(WHOLE, *[_gang(2, 1)] * 4)
    assert [one.begin for one in map(plan.table.holding, range(4))] == [0] * 4
    commit(plan, Reconfigure(LESS))
    adapt_now(plan)
    assert violations(plan) == []
    held = [plan.reservation(f"r{number}") for number in range(4)]
    assert sorted(one.revision for one in held if one is not None) == [1, 1, 1, 2]
    assert {one.state for one in held if one is not None} == {State.ACCEPTED}


def test_the_validator_finds_what_is_taken_twice() -> None:
    """From now on: what others take now says nothing of the past."""
    plan = _plan(WHOLE, _gang(2, 4))
    judged = replace(LESS, machines=(MachineGroup("m", 2, Resources.of({"cpu": 4000})),))
    document = plan_json(plan)
    found = {one.where for one in validate(document, cluster=judged, grid=plan.grid, now_s=0)}
    assert {"pool", "machine:m-1"} <= found
    assert validate(document, cluster=judged, grid=plan.grid, now_s=4) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [(["m-2"], "there is no machine 'm-2'"), (["m-1", "m-1"], "m-1 is given twice")],
)
def test_a_file_names_machines_that_there_are_once(names: list[str], message: str) -> None:
    taken = [{"machine": name, "resources": {"cpu": 1}} for name in names]
    with pytest.raises(FileError, match=message):
        cluster_from_json(cluster_to_json(WHOLE) | {"taken": taken}, "the test")

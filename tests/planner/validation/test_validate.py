"""The validator finds each kind of fault where it is, and nothing in a plan without faults."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from planner.cluster.cluster import MachineGroup, Outage, Queue
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from rdl.resources import Resources
from tests.planner.plan_documents import (
    CORE,
    EXAMPLE,
    cluster,
    document,
    faults,
    refusal,
    reservation,
)


def test_the_worked_example_is_valid() -> None:
    """The example of the plan format, its own cluster and metrics included."""
    assert validate(EXAMPLE) == []


ONE = "atom(<1 cpu>, 1, 10, 5, 50)"


@pytest.mark.parametrize(
    ("rows", "rule", "where"),
    [
        ([[0, 5, 10]], None, None),
        ([[0, 2, 10], [2, 5, 10]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[5, 10, 5], [0, 5, 5]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[0, 5, 5], [4, 9, 5]], "rows", "/reservations/0/atoms/0/allocation/1"),
        ([[0, 0, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[96, 101, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0.5, 5.5, 10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, 10.0]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, -10]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, "5", 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 5, 10**30]], "rows", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 1e306, 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 10**400, 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, float("nan"), 10]], "shape", "/reservations/0/atoms/0/allocation/0"),
        ([[0, 4, 10]], "oracle", "/reservations/0"),
        ([[0, 4, 10], [4, 6, 5]], "oracle", "/reservations/0"),
    ],
)
def test_rows(rows: list[list[int]], rule: str | None, where: str | None) -> None:
    """Rows lie on steps, half-open, sorted, merged, inside the horizon, and keep the promise."""
    expected = [] if rule is None else [(rule, where)]
    assert faults(document(reservation("r", ONE, {"": rows}))) == expected


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"state": "refused"}, "state", "/reservations/0/state"),
        ({"state": "planned"}, "state", "/reservations/0/state"),
        ({"weight": -1}, "shape", "/reservations/0/weight"),
        ({"weight": float("nan")}, "shape", "/reservations/0/weight"),
        ({"revision": 0}, "shape", "/reservations/0/revision"),
        ({"submitted": "noon"}, "shape", "/reservations/0/submitted"),
        ({"submitted": 6}, "oracle", "/reservations/0"),
        ({"expression": "atom("}, "expression", "/reservations/0/expression"),
        ({"expression": "all(void(<1 cpu>, 1))"}, "path", "/reservations/0/atoms/0/path"),
        ({"expression": "atom(<2 cpu>, 1, 10, 5, 50)"}, "bundle", "/reservations/0/atoms/0/bundle"),
        ({"choices": {"": 0}}, "oracle", "/reservations/0"),
        ({"choices": {"": "0"}}, "shape", "/reservations/0/choices"),
        ({"atoms": []}, "oracle", "/reservations/0"),
        ({"atoms": None}, "shape", "/reservations/0/atoms"),
        ({"queue": "night"}, "queue", "/reservations/0/queue"),
        ({"id": ""}, "id", "/reservations/0/id"),
    ],
)
def test_fields_of_a_reservation(change: dict[str, Any], rule: str, where: str) -> None:
    """Each field that is wrong is named, once."""
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    assert faults(document(held)) == []
    assert faults(document(held | change)) == [(rule, where)]


def test_the_same_path_twice() -> None:
    """Two entries for one atom would hide its sum."""
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    held["atoms"].append(copy.deepcopy(held["atoms"][0]))
    assert faults(document(held)) == [("path", "/reservations/0/atoms/1/path")]


@pytest.mark.parametrize("broken", [None, 7, "r", [], [[]]])
def test_junk_is_a_violation_not_a_crash(broken: object) -> None:
    """Whatever stands where a reservation should, the validator answers."""
    assert ("shape", "/reservations/0") in faults(document(broken))  # type: ignore[arg-type]
    assert ("shape", "/refusals/0") in faults(document(refusals=[broken]))  # type: ignore[list-item]
    assert ("shape", "/reservations") in faults(document(reservations=None))
    assert ("shape", "/step_s") in faults(document(step_s=broken))
    assert [v.rule for v in validate({"cluster": broken})] == ["shape"]
    assert ("state", "/refusals/0/code") in faults(document(refusals=[refusal("a", code=broken)]))


def test_ids_are_those_asked_each_once() -> None:
    """Reservations and refusals together are what was asked."""
    held = reservation("a", ONE, {"": [[5, 10, 10]]})
    plan = document(held, refusals=[refusal("b")])
    assert faults(plan, asked=["a", "b"]) == []
    assert faults(plan, asked=["a", "b", "c"]) == [("id", "/reservations")]
    assert faults(plan, asked=["a"]) == [("id", "/refusals/0")]
    twice = document(held, refusals=[refusal("a")])
    assert faults(twice) == [("id", "/refusals/0/id")]


def test_refusals() -> None:
    """A refusal has a known code and holds nothing."""
    assert faults(document(refusals=[refusal("b")])) == []
    wrong = faults(document(refusals=[refusal("b", code="busy")]))
    assert wrong == [("state", "/refusals/0/code")]
    assert faults(document(refusals=[refusal("b", atoms=[])])) == [("state", "/refusals/0")]


def test_queues() -> None:
    """A queue that is not reservable holds no reservation."""
    night = cluster(queues=(Queue("default", reservable=False),))
    held = reservation("r", ONE, {"": [[5, 10, 10]]})
    assert faults(document(held), night) == [("queue", "/reservations/0/queue")]


@pytest.mark.parametrize(("state", "held_to"), [("completed", True), ("cancelled", False)])
def test_the_oracle_judges_whole_promises_only(state: str, held_to: bool) -> None:
    """What was cancelled, degraded or failed keeps its past and no more."""
    part = reservation("r", ONE, {"": [[5, 9, 10]]}, state=state)
    assert faults(document(part)) == ([("oracle", "/reservations/0")] if held_to else [])


def test_released_rows_keep_the_promise_and_free_the_machines() -> None:
    """What was released counts for the oracle, not for capacity."""
    early = reservation("a", ONE, {"": [[0, 3, 10]]}, state="completed")
    early["atoms"][0]["released"] = [[3, 5, 10]]
    other = reservation("b", "atom(<1 cpu>, 1, 10, 2, 20)", {"": [[3, 5, 10]]})
    assert faults(document(early, other)) == []
    half = copy.deepcopy(early)
    half["atoms"][0] |= {"allocation": [[0, 3, 10], [3, 5, 4]], "released": [[3, 5, 6]]}
    assert faults(document(half)) == []
    assert [v.rule for v in validate(document(half, other), cluster=cluster())] == ["capacity"]


def ten(name: str, start: int) -> dict[str, Any]:
    """Return a reservation of all ten cores for five steps."""
    return reservation(name, ONE, {"": [[start, start + 5, 10]]})


def test_capacity() -> None:
    """Each stretch above capacity is reported once, with its worst step and by how much."""
    small = reservation("c", "atom(<1 cpu>, 1, 1, 1, 1)", {"": [[4, 5, 1]]})
    found = validate(document(ten("a", 0), ten("b", 3), small), cluster=cluster())
    detail = "21000 of cpu at step 4, 11000 above 10000; exceeded over steps [3, 5)"
    assert found == [PlanViolation("pool", "capacity", detail, None, 4, 21_000, 10_000)]
    assert faults(document(ten("a", 0), ten("b", 5))) == []


def test_outages_take_whole_steps_and_each_machine_once() -> None:
    """4 of 10 machines away in [1.5 s, 3.2 s), 2 of them named twice: 6 left in steps 1 to 3."""
    outages = (
        Outage("m", (6, 7, 8, 9), 1500, 3200),
        Outage("m", (8, 9), 2000, 3000),
    )
    six = "atom(<1 cpu>, 1, 7, 1, 7)"
    away = cluster(outages=outages)
    for step in range(6):
        held = reservation("r", six, {"": [[step, step + 1, 7]]})
        expected = 1 <= step < 4
        assert (("capacity", "pool") in faults(document(held), away)) == expected, step


GPU = Resources.of({"cpu": 4000, "gpu": 2})


def test_labels() -> None:
    """Machines with a label are counted apart: 2 of them hold 4 GPUs and 8 cores."""
    mixed = cluster(MachineGroup("plain", 10, CORE), MachineGroup("g", 2, GPU, frozenset({"gpu"})))
    asked = 'atom(<1 cpu>, 1, 9, 1, 9, on="gpu")'
    held = reservation("r", asked, {"": [[0, 1, 9]]}, on="gpu")
    found = faults(document(held), mixed)
    assert found == [("capacity", "label:gpu"), ("fit", "/reservations/0/atoms/0")]
    wrong = reservation("r", asked, {"": [[0, 1, 9]]}, on="ssd")
    assert faults(document(wrong), mixed) == [("bundle", "/reservations/0/atoms/0/on")]


def test_fit_caps() -> None:
    """<1 gpu, 3 cpu> fits once on each of 2 machines, though the pool has capacity for 3."""
    mixed = cluster(MachineGroup("plain", 10, CORE), MachineGroup("g", 2, GPU))
    bundle = {"cpu": 3, "gpu": 1}
    asked = "atom(<3 cpu, 1 gpu>, 1, 3, 1, 3)"
    held = reservation("r", asked, {"": [[4, 5, 3]]}, bundle=bundle)
    (found,) = validate(document(held), cluster=mixed)
    assert (found.rule, found.at, found.amount, found.limit) == ("fit", 4, 3, 2)

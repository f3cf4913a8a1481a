"""Plan files with slots: written, read back, compared; solvers' plans are laid by value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.errors import FileError
from planner.files.plan_document import PlanDocument
from planner.promise import PromiseLevel
from planner.workload.diff import ChangeKind, difference_of
from planner.workload.plan import Planned, plan_from_nothing
from planner.workload.reload import plan_of_document
from tests.builders import RequestBuilder, a_cluster, a_request, a_workload


def cluster_of(*cores: int) -> Cluster:
    """One machine each of some cores, ten minutes; slots are promised."""
    built = a_cluster().step("10s").horizon("10m")
    for number, one in enumerate(cores):
        built = built.machines(f"m{number}", 1, cpu=one)
    return replace(built.build(), promise=PromiseLevel.PLACED)


def planned(agent: str, *requests: RequestBuilder) -> Planned:
    """Plan requests on two machines of 4 cores."""
    cluster = cluster_of(4, 4)
    return plan_from_nothing(cluster, a_workload(cluster, *requests), agent_named(agent))


def full(name: str, cores: int, weight: float = 1.0) -> RequestBuilder:
    """Return a request for one bundle over all the time."""
    text = f"window(atom(<{cores} cpu>, 1, 1, 10m, 10m), 0, 10m)"
    return a_request(name, text).weight(weight)


MIXED = (
    full("a", 3),
    a_request("b", "window(every(atom(<1 cpu>, 1, 2, 1m, 2m), 2m), 0, 10m)"),
    a_request("c", "order(atom(<2 cpu>, 1, 1, 1m, 2m, spread=1), atom(<1 cpu>, 2, 2, 1m, 2m))"),
)


def test_a_plan_file_keeps_slots_and_levels() -> None:
    """Read back it is the same file, recurring and spread atoms too, and takes the same room."""
    first = planned("gree", *MIXED)
    again = plan_of_document(first.document)
    assert [one.to_json(again.grid) for one in again.reservations()] == list(
        first.document.reservations
    )
    assert (again.room._tree == first.plan.room._tree).all()


def test_a_plan_file_of_before_is_pooled() -> None:
    """Without a level and slots it promises totals, whatever the cluster promises now."""
    document = planned("gree", full("a", 3)).document
    entry = {name: value for name, value in document.reservations[0].items() if name != "promise"}
    entry["atoms"] = [
        {name: value for name, value in atom.items() if name != "slots"} for atom in entry["atoms"]
    ]
    plan = plan_of_document(replace(document, reservations=(entry,)))
    (one,) = plan.reservations()
    assert one.promise is PromiseLevel.POOLED
    assert one.atoms[0].slots is None


@pytest.mark.parametrize(
    ("slot", "why"),
    [
        ([0, 600, 1, "m9-0"], "the cluster has no machine 'm9-0'"),
        ([0, 500, 1, "m0-0"], "the slots of the request are not what it holds"),
    ],
)
def test_slots_that_cannot_be_are_named(slot: list[object], why: str) -> None:
    """An unknown machine, or other rows than are held."""
    document: PlanDocument = planned("gree", full("a", 3)).document
    entry = dict(document.reservations[0])
    entry["atoms"] = [{**entry["atoms"][0], "slots": [slot], "path": entry["atoms"][0]["path"]}]
    with pytest.raises(FileError) as raised:
        plan_of_document(replace(document, reservations=(entry,)))
    assert why.partition(" of ")[0] in str(raised.value)


def test_another_machine_at_the_same_times_is_a_relocation() -> None:
    """Nothing moved in time; ten minutes of one bundle stand elsewhere."""
    before = dict(planned("gree", full("a", 3)).document.reservations[0])
    (atom,) = before["atoms"]
    start, end, bundles, machine = atom["slots"][0]
    other = "m1-0" if machine == "m0-0" else "m0-0"
    after = {**before, "atoms": [{**atom, "slots": [[start, end, bundles, other]]}]}
    found = difference_of("a", before, after)
    assert found is not None
    assert (found.fate, found.moved, found.relocated) == (ChangeKind.RELOCATED, 0, 600)


@pytest.mark.parametrize("agent", ["gree", "exact", "milp"])
def test_the_loss_to_machines_is_shown_next_to_the_gap(agent: str) -> None:
    """Totals hold three of 3, 3 and 2 cores; machines hold two of them."""
    metrics = planned(agent, full("a", 3), full("b", 3), full("c", 2)).document.metrics
    assert metrics["accepted"] == 2
    assert metrics["machine_loss"] == pytest.approx(0.25)
    if agent != "gree":
        assert metrics["status"] == "feasible"
        assert metrics["gap"] == pytest.approx(0.25)


def test_a_solvers_plan_chooses_machines_by_value() -> None:
    """The last line is worth most a core: it has a machine, one of the others has none."""
    results = planned("exact", full("a", 3), full("b", 3), full("c", 2, 9.0)).results
    assert [one.placed for one in results].count(True) == 2
    assert results[2].placed


def test_what_machines_leave_is_filled() -> None:
    """Totals leave the last one out; once another found no machine, there is capacity for it."""
    lines = (full("a", 3), full("b", 3, 2.0), full("c", 2), full("d", 1, 0.1))
    found = planned("exact", *lines)
    assert [one.placed for one in found.results] == [True, True, False, True]
    assert found.document.metrics["accepted"] == 3
    told = [one["id"] for one in found.document.reservations]
    assert told == ["a", "b", "d"]


def test_a_pooled_plan_tells_no_loss() -> None:
    """Where no one is promised machines, there is no such figure."""
    cluster = replace(cluster_of(4, 4), promise=PromiseLevel.POOLED)
    workload = a_workload(cluster, full("a", 3), full("b", 3), full("c", 2))
    metrics = plan_from_nothing(cluster, workload, agent_named("gree")).document.metrics
    assert "machine_loss" not in metrics
    assert metrics["accepted"] == 3

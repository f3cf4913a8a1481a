"""Live dispatch tables, and the way from RDL text to components that a table has placed."""

from __future__ import annotations

import numpy as np
import pytest

from dispatch.cycle.options import DispatchOptions
from dispatch.entitlements.follower import PlanFollower
from dispatch.tables import LiveTables
from planner.plan.records.changes import Reconfigure
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.dispatch.cycle.world import World, an_application

# Three narrow and two wide components fill a machine of 13 each way; best fit would mix them.
_CLUSTER = a_cluster().horizon("40000s").step("10s").machines("node", 6, cpu=13).build()


def _text(cpu: int, height: int) -> str:
    return f"window(atom(<{cpu} cpu>, 1, {height}, 600, {height * 6000}), 0, 30000)"


def test_a_table_is_solved_when_there_is_work_and_again_when_it_is_due() -> None:
    """None without work; then one for ten minutes, or until a tenth of the work is new."""
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    tables.refresh(plan, 0)
    assert tables.table_at(plan, 0) == (None, 1)
    assert tables.problem
    for number in range(10):
        ask(plan, a_request(f"r{number}", _text(1 + number % 2 * 4, 2)).on(_CLUSTER))
    tables.refresh(plan, 1_000)
    table, version = tables.table_at(plan, 1_000)
    assert table is not None
    assert (version, table.machines, len(table.classes)) == (2, 6, 2)
    assert tables.load is not None
    assert 0 < tables.load < 1
    ask(plan, a_request("one-more", _text(1, 2)).on(_CLUSTER))
    assert tables.due(plan, 2_000) is None
    ask(plan, a_request("and-more", _text(1, 2)).on(_CLUSTER))
    assert tables.due(plan, 3_000) is not None
    assert tables.due(plan, 602_999) is None
    assert tables.due(plan, 603_000) is not None


def test_a_change_of_the_machines_makes_the_table_void() -> None:
    """A table of six machines says nothing of seven, and another is due at once."""
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    ask(plan, a_request("r", _text(1, 2)).on(_CLUSTER))
    tables.refresh(plan, 0)
    larger = a_cluster().horizon("40000s").step("10s").machines("node", 7, cpu=13).build()
    commit(plan, Reconfigure(larger))
    assert tables.table_at(plan, 1_000) == (None, 0)
    tables.refresh(plan, 1_000)
    table, _ = tables.table_at(plan, 1_000)
    assert table is not None
    assert table.machines == 7


def test_a_solver_that_fails_leaves_no_table_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last table is of other work: none is better, and nothing is raised into the tick."""
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    ask(plan, a_request("r", _text(1, 2)).on(_CLUSTER))

    def breaks(*_: object) -> None:
        raise RuntimeError("the LP over priced bins ended error")

    monkeypatch.setattr("dispatch.tables.plan_lotes", breaks)
    tables.refresh(plan, 0)
    assert tables.table_at(plan, 0) == (None, 1)
    assert tables.problem == "the LP over priced bins ended error"


def test_small_clusters_get_no_more_classes_than_they_serve() -> None:
    """Two machines that hold one job each: six sizes are joined, and the load is a number."""
    cluster = a_cluster().horizon("40000s").step("10s").machines("node", 2, cpu=13).build()
    plan, tables = a_plan(cluster).build(), LiveTables()
    for cpu in range(7, 13):
        tables.count_arrival(an_application(f"a{cpu}", 10, cpu=cpu, size_ms=600_000), 0)
    tables.refresh(plan, 1_000)
    table, _ = tables.table_at(plan, 1_000)
    assert table is not None
    assert 1 <= len(table.classes) <= 2
    assert tables.load is not None
    assert 0 < tables.load < 1


def test_where_not_each_kind_of_work_has_a_machine_there_is_no_table_and_no_load() -> None:
    """Two labels, one machine that carries both and holds one job: which of them would wait?"""
    machines = a_cluster().horizon("40000s").step("10s")
    cluster = machines.machines("node", 1, labels=("x", "y"), cpu=13).build()
    plan, tables = a_plan(cluster).build(), LiveTables()
    for label in ("x", "y"):
        one = an_application(label, 1, cpu=12, labels=(label,), size_ms=600_000)
        tables.count_arrival(one, 0)
    tables.refresh(plan, 1_000)
    assert tables.table_at(plan, 1_000)[0] is None
    assert tables.load is None
    assert tables.problem


def test_what_no_machine_holds_is_no_class() -> None:
    """One component larger than any machine: without it the table serves all that is left."""
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    tables.count_arrival(an_application("fits", 4, cpu=6, size_ms=600_000), 0)
    tables.count_arrival(an_application("large", 4, cpu=14, size_ms=600_000), 0)
    tables.refresh(plan, 1_000)
    table, _ = tables.table_at(plan, 1_000)
    assert table is not None
    assert len(table.classes) == 1


def test_best_effort_arrivals_of_the_last_day_shape_the_classes() -> None:
    """Narrow work is planned, wide work arrived within the day: two classes; a day later one."""
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    ask(plan, a_request("r", _text(1, 2)).on(_CLUSTER))
    tables.count_arrival(an_application("wide", 40, cpu=6, size_ms=600_000), 0)
    tables.refresh(plan, 1_000)
    table, _ = tables.table_at(plan, 1_000)
    assert table is not None
    assert len(table.classes) == 2


def test_from_rdl_text_to_components_placed_by_a_table() -> None:
    """Text, Plan, entitlement, classes, both LPs, table, placement: machines keep to their bins.

    Every machine runs no more of a class than its bin says: the wide ones two, alongside three
    narrow ones at most.
    """
    plan, tables = a_plan(_CLUSTER).build(), LiveTables()
    for name, cpu, height in (("narrow", 1, 18), ("wide", 5, 10)):
        text = f"window(atom(<{cpu} cpu>, {height}, {height}, 6000, {height * 6000}), 0, 6000)"
        ask(plan, a_request(name, text).on(_CLUSTER))
    tables.refresh(plan, 0)
    world = World(_CLUSTER, plan, DispatchOptions("lotes"))
    world.follower = PlanFollower(plan, tables)
    world.submit(an_application("wide", 10, cpu=5, reservation="wide"))
    world.submit(an_application("narrow", 18, cpu=1, reservation="narrow"))
    cycle = world.tick(0)
    table, version = tables.table_at(plan, 0)
    assert table is not None
    assert cycle.table_version == version == 1
    assert not cycle.below
    assert len(world.covered()) == 28
    held = np.zeros((6, 2), dtype=int)
    sizes = [float(one) for one in table.requests[:, 0] * 13]
    for row in world.table.assignment().rows:
        wanted = 5 if row.execution == "wide" else 1
        column = int(np.argmin([abs(size - wanted) for size in sizes]))
        held[int(row.machine.removeprefix("node-")), column] += 1
    targets = table.bins[table.bin_of]
    assert (held <= targets).all(), (held.tolist(), targets.tolist())

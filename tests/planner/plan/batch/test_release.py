"""Rows released by who holds them: what may be, and what the Plan makes of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import Code
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel, Conflict, Prepared, Release, Update
from planner.plan.records.commit_records import CommitRecord
from planner.renegotiation import result_of
from planner.reservations.state import State
from planner.validation.validate import validate
from rdl.oracle.satisfaction import check
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.planner.plan.plan_json import plan_json

TWO = "window(order(atom(<1 cpu>, 2, 4, 1, 12), atom(<1 cpu>, 1, 4, 2, 8)), 0, 20)"


def _plan() -> Plan:
    cluster = a_cluster().horizon(20).machines("m", 4, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").holding(a_request("a", TWO).on(cluster)).build()
    assert _rows(plan) == {"0.0": [[0, 3, 4]], "0.1": [[3, 5, 4]]}
    return plan


def _rows(plan: Plan) -> dict[str, list[list[int]]]:
    found = plan.reservation("a")
    assert found is not None
    return {atom.path: atom.rows.tolist() for atom in found.atoms}


def _give(plan: Plan, path: str, *rows: tuple[int, int, int]) -> Prepared:
    number = plan.table.number_of("a")
    assert number is not None
    revision = int(plan.table.meta[number]["revision"])
    released = ((path, np.array(rows, dtype=np.int64).reshape(-1, 3)),)
    return commit(plan, Release("a", revision, released, "done early"), at_ms=1000)


def test_rows_released_are_free_and_are_shown_next_to_those_held() -> None:
    """Machines are free from then on; listings show what was released; the reservation lives."""
    plan = _plan()
    commit(plan, Advance(1))
    assert _give(plan, "0.0", (2, 3, 2)).record is not None
    found = plan.reservation("a")
    assert found is not None
    assert found.state is State.ACTIVE
    assert (found.revision, found.history[-1].what) == (2, "released")
    first = found.to_json(plan.grid)["atoms"][0]
    assert first["allocation"] == [[0, 2, 4], [2, 3, 2]]
    assert first["released"] == [[2, 3, 2]]
    assert plan.view().free[0, :4].tolist() == [0, 2000, 0, 0]  # from step 1 on


def test_oracle_and_validator_are_satisfied_by_held_and_released_together() -> None:
    """The promise is what is held plus what was released, also over several times."""
    plan = _plan()
    assert _give(plan, "0.1", (3, 5, 1)).record is not None
    assert _give(plan, "0.1", (3, 5, 2)).record is not None
    assert _rows(plan)["0.1"] == [[3, 5, 1]]
    document = plan_json(plan)
    assert validate(document, cluster=plan.cluster) == []
    document["reservations"][0]["atoms"][1].pop("released")
    assert [one.rule for one in validate(document, cluster=plan.cluster)] == ["oracle"]


@pytest.mark.parametrize(
    ("path", "rows", "code", "said"),
    [
        ("0.0", [(2, 3, 3)], Code.CONFLICT, "would hold 1 at step 2"),
        ("0.0", [(2, 3, 5)], Code.CONFLICT, "more of '0.0'"),
        ("0.0", [(0, 3, 4)], Code.PAST_CHANGED, "before step 1"),
        ("0.0", [], Code.CONFLICT, "no rows"),
        ("0.0", [(2, 2, 1)], Code.CONFLICT, "no rows"),
        ("0.2", [(2, 3, 1)], Code.CONFLICT, "holds nothing at '0.2'"),
    ],
)
def test_what_cannot_be_released_says_why(
    path: str, rows: list[tuple[int, int, int]], code: Code, said: str
) -> None:
    """A conflict names the rule; nothing is changed."""
    plan = _plan()
    commit(plan, Advance(1))
    before = _rows(plan)
    outcome = _give(plan, path, *rows).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert outcome.code is code
    assert said in outcome.detail
    assert _rows(plan) == before


def test_stale_revisions_recurrences_and_ended_reservations_give_nothing_back() -> None:
    """Each is a conflict: whoever measured on another version measured something else."""
    plan = _plan()
    rows = (("0.1", np.array([[3, 5, 1]])),)
    assert commit(plan, Release("a", 7, rows)).conflicts
    commit(plan, Cancel("a"))
    assert commit(plan, Release("a", None, rows)).conflicts
    every = a_request("e", "window(every(5s, atom(<1 cpu>, 1, 1, 1, 1), times=2), 0, 20)")
    again = a_plan(plan.cluster).holding(every.on(plan.cluster)).build()
    path = again.table.holding(0).atoms[0].path
    held = again.table.holding(0).atoms[0].rows
    outcome = again.prepare([Release("e", 1, ((path, held),))], again.version).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert "recurrence" in outcome.detail


def test_all_of_the_rest_released_completes_with_the_next_advance() -> None:
    """Nothing is held any more: time ends the reservation."""
    plan = _plan()
    commit(plan, Advance(2))
    _give(plan, "0.0", (2, 3, 4))
    _give(plan, "0.1", (3, 5, 4))
    commit(plan, Advance(3))
    found = plan.reservation("a")
    assert found is not None
    assert found.state is State.COMPLETED
    assert (plan.view().free[0] == 4000).all()


def test_records_and_snapshots_make_the_same_plan_again() -> None:
    """Replay from JSON, and a captured state, hold the same rows and the same capacity."""
    cluster = a_cluster().horizon(20).machines("m", 4, cpu=1).build()
    plan = Plan(cluster, cluster.grid())
    request = a_request("a", TWO).on(cluster)
    records: list[CommitRecord] = []
    result = agent_named("earliest").plan([request], plan.view(), Limits())[0]
    released = (("0.1", np.array([[3, 5, 2]])),)
    for change in (Admit(request, result, "earliest"), Advance(1), Release("a", 1, released, "x")):
        prepared = plan.prepare([change], plan.version)
        assert prepared.record is not None
        records.append(CommitRecord.from_json(json.loads(json.dumps(prepared.record.to_json()))))
        plan.apply(prepared.record)
    again = Plan.replay(cluster, cluster.grid(), records)
    kept = read_checkpoint(take_checkpoint(plan).encode())
    for other in (again, kept):
        assert plan_json(other) == plan_json(plan)
        assert (other.view().free == plan.view().free).all()


def test_an_update_that_leaves_an_atom_keeps_what_it_released() -> None:
    """Moving the other atom neither forgets nor plans again what was released."""
    plan = _plan()
    _give(plan, "0.1", (3, 5, 2))
    request = a_request("a", TWO).on(plan.cluster)
    number = plan.table.number_of("a")
    assert number is not None
    held = plan.table.holding(number)
    graph = request.graph
    vertices = graph.atoms.tolist()
    rows = {atom.path: atom.rows for atom in held.atoms}
    result = result_of(graph, vertices, [rows[graph.paths[v]] for v in vertices])
    assert commit(plan, Update("a", 2, request, result, "gree", "moved")).record is not None
    found = plan.reservation("a")
    assert found is not None
    last = found.atoms[1]
    assert last.released is not None
    assert last.released.tolist() == [[3, 5, 2]]
    together = {"0.0": [(0, 3, 4)], "0.1": [(3, 5, 4)]}
    assert check(request.graph.expression, plan.grid, 0, together, {}) is None

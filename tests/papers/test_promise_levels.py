"""Promise levels: what machines were promised is kept, what totals promised is not always."""

from __future__ import annotations

import json

from bench.papers.promises import (
    CASES,
    PromisedPlan,
    PromiseOptions,
    admit_all,
    promise_table,
    run_promise_seed,
)
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from tests.planner.machines.model import DenseRoom

TINY = PromiseOptions(machines=6, requests=60, horizon=200, load=1.3, seeds=(1, 2))
TWO_KINDS = CASES["large bundles, two kinds of machines"]


def promised(level: PromiseLevel) -> PromisedPlan:
    """Return what one level accepts of large bundles on two kinds of machines."""
    return admit_all(TINY, level, TWO_KINDS, 1)


def test_placed_breaks_none_and_each_level_costs_acceptance() -> None:
    """Large bundles on two kinds of machines: pooled breaks some, placed none of fewer accepted."""
    pooled, placed = map(promised, (PromiseLevel.POOLED, PromiseLevel.PLACED))
    assert pooled.figures("best_fit")["broken"] > 0.1
    assert placed.figures("best_fit")["broken"] == 0.0
    assert pooled.accepted > placed.accepted > 0


def test_slots_of_accepted_requests_fit_on_their_machines() -> None:
    """Every reservation has slots for all it holds, and together they over-commit no machine."""
    plan: Plan = promised(PromiseLevel.PLACED).plan
    room = DenseRoom(plan.cluster, 0, plan.grid.horizon)
    for reservation in plan.reservations():
        for atom in reservation.atoms:
            assert atom.slots is not None
            held = (atom.rows[:, 1] - atom.rows[:, 0]) @ atom.rows[:, 2]
            assert (atom.slots[:, 1] - atom.slots[:, 0]) @ atom.slots[:, 2] == held
            room.take(atom.slots, atom.bundle, 1)
    assert (room.left >= 0).all()


def test_the_table_is_plain_json_over_the_seeds_that_ran() -> None:
    """Three rows a case; the seeds told are those that ran."""
    table = promise_table(TINY, [run_promise_seed(TINY, 1)])
    document = json.loads(json.dumps(table.to_json()))
    assert len(document["rows"]) == 9
    assert document["params"]["seeds"] == [1]

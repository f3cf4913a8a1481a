"""A draft goes back to its savepoints, and leaves the Plan as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.shortage import Taking, takings_of
from planner.cluster.cluster import Cluster
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import place_alone, place_by_agent
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.reservation import Holding
from rdl.resources import Resources
from tests.builders import a_cluster, a_plan, a_request

STEPS: Final = 24
CORE: Final = Resources.of({"cpu": 1000})

_TEXTS: Final = (
    "window(atom(<1 cpu>, 1, 3, 4, 12), 0, 16)",
    "window(atom(<3 cpu>, 2, 2, 5, 10), 4, 24)",
    "window(order(atom(<2 cpu>, 1, 2, 3, 6), atom(<1 cpu>, 1, 4, 2, 8)), 0, 24)",
    "window(atom(<4 cpu>, 1, 2, 6, 12), 2, 20)",
)


def cluster() -> Cluster:
    """Three machines of four cores, an average over windows; slots are promised."""
    built = a_cluster().horizon(STEPS).machines("m", 3, cpu=4)
    built = built.policy("capacity_over_time", tenant="*", average=0.9, window=6)
    return replace(built.build(), promise=PromiseLevel.PLACED)


def state_of(draft: Draft) -> tuple[list[object], list[int]]:
    """Return what a draft leaves of totals and averages, and of machines for single cores."""
    ledger, room = draft.ledger, draft.room
    totals = [ledger.free.tolist(), ledger.averages.slack.tolist()]
    return totals, [room.count(step, step + 1, CORE) for step in range(STEPS)]


_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["agent", "alone", "remove", "restore", "save", "back", "look"]),
        st.integers(0, len(_TEXTS) - 1),
    ),
    max_size=20,
)


@settings(max_examples=60)
@given(_OPERATIONS)
def test_a_draft_goes_back_to_each_savepoint_and_leaves_the_plan_alone(
    operations: list[tuple[str, int]],
) -> None:
    """After a roll back totals and machines are what they were; after the end, the Plan's own."""
    standing = a_request("stands", "window(atom(<2 cpu>, 1, 1, 8, 8), 0, 24)").on(cluster())
    plan = a_plan(cluster()).holding(standing).build()
    requests = [a_request(f"r{i}", text).on(plan.cluster) for i, text in enumerate(_TEXTS)]
    for request in requests:  # so that each row of the profile is there from the start
        agent_named("gree-l").plan([request], plan.view(), Limits())
    origin = state_of(Draft.of(plan))
    draft = Draft.of(plan)
    held: dict[int, tuple[Holding, list[Taking]]] = {}
    removed: dict[int, tuple[Holding, list[Taking]]] = {}
    saved = [(draft.savepoint(), state_of(draft), dict(held), dict(removed))]
    for name, index in operations:
        request = requests[index]
        if name in ("agent", "alone") and index not in held:
            placed = (
                place_alone(draft, request)
                if name == "alone"
                else place_by_agent(draft, request, agent_named("gree-l"), 4)
            )
            if placed is not None and not isinstance(placed, MachineShortage):
                takings = _takings(plan, request, placed[1])
                assert draft.shortage(takings) is None
                draft.take(takings)
                held[index] = placed[1], takings
        elif name == "remove" and index in held:
            removed[index] = held.pop(index)
            holding, takings = removed[index]
            draft.release_slots(holding)
            draft.take([one._replace(sign=-one.sign) for one in takings])
        elif name == "restore" and index in removed and index not in held:
            before = state_of(draft)
            if draft.restore(*removed[index]):
                held[index] = removed.pop(index)
            else:
                assert state_of(draft) == before
        elif name == "save":
            saved.append((draft.savepoint(), state_of(draft), dict(held), dict(removed)))
        elif name == "back":
            savepoint, state, held, removed = saved.pop() if len(saved) > 1 else saved[0]
            held, removed = dict(held), dict(removed)
            draft.roll_back(savepoint)
            assert state_of(draft) == state
        else:
            draft.view().free.min()
    draft.close()
    assert state_of(Draft.of(plan)) == origin


def _takings(plan: Plan, request: Request, holding: Holding) -> list[Taking]:
    return takings_of(holding, plan.ledger, request.tenant, request.queue)


_ROWS = st.lists(
    st.tuples(st.integers(0, STEPS - 1), st.integers(1, 8), st.integers(1, 7)), max_size=8
)


@settings(max_examples=100)
@given(_ROWS)
def test_a_shortage_is_the_same_whether_totals_were_copied_or_not(
    rows: list[tuple[int, int, int]],
) -> None:
    """What was taken counts for what comes after it; the totals of the Plan stay as they are."""
    plan = a_plan(cluster()).build()
    demand = plan.ledger.demand(CORE, None, "a", "b")
    fresh, copied = Draft.of(plan), Draft.of(plan)
    fits = True
    for index, (start, steps, bundles) in enumerate(rows):
        row = np.array([[start, min(start + steps, STEPS), bundles]], dtype=np.int64)
        takings = [Taking(f"{index}", demand, row, 1)]
        missing = copied.shortage(takings)
        assert fresh.shortage(takings) == missing
        fits = fits and missing is None
        if missing is None:
            fresh.take(takings)
            copied.take(takings)
        copied.view()
        assert not fits or fresh._ledger is plan.ledger
    fresh.close()
    copied.close()

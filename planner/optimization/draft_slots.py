"""Drafts of an optimisation on machines: what moves or comes in finds its slots as it is placed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.adaptation.relocation import has_lost_slots, room_with, slots_on
from planner.plan.changes import Admit, Change, Update
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.draft_machines import DraftMachines
from planner.replanning.draft_plan import DraftPlan
from planner.reservation import Holding
from planner.slots import Slots


def show_machines(draft: DraftPlan, waiting: Iterable[Commitment]) -> None:
    """Let a draft that nothing was changed in find machines for all that is promised some.

    Where slots have lost their machines the draft goes on to look at totals: those are for the
    adapter.

    Parameters
    ----------
    waiting
        Refused requests that may come in are among them.
    """
    plan = draft.plan
    newcomers = frozenset(
        one.number
        for one in waiting
        if one.number < 0
        and one.request is not None
        and (one.request.promise or plan.cluster.promise) is PromiseLevel.PLACED
    )
    held = slots_on(plan, plan.cluster)
    if not (newcomers or len(held.slots)) or has_lost_slots(plan):
        return
    room = room_with(held, plan, plan.cluster)

    def base(number: int) -> Holding:
        return Holding((), plan.now, plan.now) if number < 0 else plan.table.holding(number)

    draft.machines = DraftMachines.of(plan, room, base, frozenset(), newcomers)


def slots_in(draft: DraftPlan, commitment: Commitment) -> tuple[Slots | None, ...] | None:
    """Return the slots of each atom of what a commitment holds in a draft; None if it has none."""
    machines = draft.machines
    if machines is None or not machines.places(commitment.number):
        return None
    return tuple(atom.slots for atom in machines.holding(commitment.number).atoms)


def without_slots(changes: Sequence[Change]) -> list[Change]:
    """Return the same moves and admissions, for the Plan to find their machines."""
    return [replace(one, slots=None) if isinstance(one, Admit | Update) else one for one in changes]

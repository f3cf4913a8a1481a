"""Drafts on machines: what moves or comes in finds its slots as it is placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from planner.adaptation.relocation import has_lost_slots, relocate_change, room_with, slots_on
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Relocate, Update
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, StartingMachines
from planner.reservations.slots import Slots


def starting_machines(plan: Plan, waiting: Iterable[Commitment]) -> StartingMachines | None:
    """Return machines for drafts of a Plan; None where none are promised.

    None too where slots have lost theirs: those are for the adapter.

    Parameters
    ----------
    waiting
        Refused requests that may come in are among them.
    """
    newcomers = frozenset(
        one.number
        for one in waiting
        if one.number < 0
        and one.request is not None
        and (one.request.promise or plan.cluster.promise) is PromiseLevel.PLACED
    )
    held = slots_on(plan)
    if not (newcomers or len(held.slots)) or has_lost_slots(plan):
        return None
    return StartingMachines(room_with(held, plan), newcomers)


def without_slots(changes: Sequence[Change]) -> list[Change]:
    """Return the same moves and admissions, for the Plan to find their machines."""
    return [replace(one, slots=None) if isinstance(one, Admit | Update) else one for one in changes]


def relocations(draft: DraftPlan, changes: Iterable[Change]) -> Iterator[Relocate]:
    """Yield what only changes its machines, to make room for others.

    Parameters
    ----------
    changes
        All other changes to the draft: what they change has its new machines from them.
    """
    plan = draft.plan
    changed = {plan.table.number_of(getattr(one, "id", "")) for one in changes}
    for number in sorted(draft.held):
        if number < 0 or number in changed or number in draft.lifted:
            continue
        before, after = plan.table.holding(number), draft.held_by(number)
        if [one.path for one in before.atoms] != [one.path for one in after.atoms]:
            continue  # it came back with its occurrences divided otherwise: slots are by atom
        pairs = list(zip(before.atoms, after.atoms, strict=True))
        if draft.places(number) and not all(_same(old.slots, new.slots) for old, new in pairs):
            yield relocate_change(plan, number, after, "it makes room for others")


def _same(slots: Slots | None, others: Slots | None) -> bool:
    if slots is None or others is None:
        return slots is others
    return slots.shape == others.shape and bool((slots == others).all())

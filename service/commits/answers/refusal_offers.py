"""Find offers for the refusals of a group before the commit; they are kept with the refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.agents import agent_named
from planner.offers.search import HOPELESS, OfferSearch
from planner.plan.plan import Plan
from planner.plan.records.changes import Prepared, Refuse
from planner.plan.records.reservation_records import Admitted, Refused
from service.commits.changes.commands import Admission
from service.commits.changes.pending import PendingChange

#: Trials of a search that its time does not count.
_UNTIMED: Final = 1


def search_for(
    drafts: Sequence[PendingChange],
    prepared: Prepared,
    plan: Plan,
    seconds: float,
    *,
    dry_run: bool = False,
) -> OfferSearch | None:
    """Return a search for refusals that still lack their offers, or None where none does.

    Offers are sought in the state that the group's own commit is about to make, and name its
    version: what the group takes is not offered once more. A dry run makes no version, and a
    group that gives something back is left out of account.

    Parameters
    ----------
    prepared
        What the group comes to on `plan`, which only the caller has.
    """
    waiting = [draft for draft in drafts if needs_offers(draft)]
    if not waiting:
        return None
    levels = [draft.request.promise for draft in waiting]
    search = OfferSearch.of(plan, seconds_of_search(seconds), levels)
    for draft in waiting:
        draft.search_version = plan.version
    record = prepared.record
    if dry_run or record is None:
        return search
    admitted = [one for one in record.changes if isinstance(one, Admitted)]
    plain = all(isinstance(one, Admitted | Refused) for one in record.changes)
    return search.after(admitted, record.version) if plain else search


def seconds_of_search(seconds: float) -> Callable[[], bool]:
    """Return what stops a search so long after its first trial.

    The time before it goes on placing what was asked for, and the first trial may load what all
    of them need: neither is the search's.
    """
    asked = 0
    until = 0.0

    def stop() -> bool:
        nonlocal asked, until
        asked += 1
        if asked == _UNTIMED + 1:
            until = time.perf_counter() + seconds
        return asked > _UNTIMED and time.perf_counter() >= until

    return stop


def add_offers(drafts: Sequence[PendingChange], search: OfferSearch) -> None:
    """Put offers on the refusals that a search is for; the long part, and it holds no lock."""
    for draft in drafts:
        change, ask = draft.change, draft.ask
        if draft.search_version is None or ask is None or not isinstance(change, Refuse):
            continue
        if change.code not in HOPELESS and not change.offers:
            agent = agent_named(ask.agent)
            found = search.offers(ask.request, ask.expression, agent, ask.offers)
            draft.change = replace(change, offers=found)


def name_version(drafts: Sequence[PendingChange], made: int) -> None:
    """Let offers name the version they were sought in when another process made the next one.

    Parameters
    ----------
    made
        The version that the group's record makes.
    """
    for draft in drafts:
        change, version = draft.change, draft.search_version
        if version in (None, made - 1) or not isinstance(change, Refuse):
            continue
        offers = tuple({**offer, "at_version": version} for offer in change.offers)
        draft.change = replace(change, offers=offers)


def needs_offers(draft: PendingChange) -> bool:
    """Return whether a change is a refusal that wants offers and has not been given any."""
    return (
        draft.search_version is None and isinstance(draft.change, Refuse) and _wants_offers(draft)
    )


def _wants_offers(draft: PendingChange) -> bool:
    command, ask = draft.command, draft.ask
    whole = isinstance(command, Admission) and not command.atomic
    return whole and ask is not None and ask.offers > 0

"""Find offers for the refusals of a group before the commit; they are kept with the refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.agents import agent_named
from planner.offers.search import HOPELESS, OfferSearch
from planner.plan.changes import Admit, Refuse
from planner.plan.plan import Plan
from service.commits.commands import Admission
from service.commits.pending import PendingChange

#: Trials of a search that its time does not count.
_UNTIMED: Final = 1


def search_for(drafts: Sequence[PendingChange], plan: Plan, seconds: float) -> OfferSearch | None:
    """Return a search on the present Plan, or None where no refusal is to carry offers."""
    if not any(map(_wants_offers, drafts)):
        return None
    return OfferSearch.of(plan, seconds_of_search(seconds))


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


def add_offers(
    drafts: Sequence[PendingChange], search: OfferSearch | None, *, dry_run: bool
) -> None:
    """Put offers on the refusals among placed drafts; the long part, and it holds no lock.

    They are sought in the state that the group's own commit is about to make, and name its
    version: what the group takes is not offered once more. A dry run makes no version, and a
    group that gives something back is left out of account.
    """
    refused = [draft for draft in drafts if _is_refused(draft)]
    if search is None or not refused:
        return
    plain = all(isinstance(d.change, Admit | Refuse) for d in drafts if d.change is not None)
    if plain and not dry_run:
        placed = [d.change for d in drafts if isinstance(d.change, Admit)]
        search = search.after(
            [(one.request, one.result) for one in placed], search.view.version + 1
        )
    for draft in refused:
        change, ask = draft.change, draft.ask
        assert isinstance(change, Refuse)
        assert ask is not None
        if change.code not in HOPELESS:
            agent = agent_named(ask.agent)
            found = search.offers(ask.request, ask.expression, agent, ask.offers)
            draft.change = replace(change, offers=found)


def needs_offers(drafts: Sequence[PendingChange]) -> bool:
    """Return whether some of the placed drafts are refused and want offers."""
    return any(map(_is_refused, drafts))


def name_version(drafts: Sequence[PendingChange], version: int, made: int) -> None:
    """Let offers name the version they were sought in when another process made the next one.

    Parameters
    ----------
    version
        Of the Plan when the group was placed.
    made
        The version that the group's record makes.
    """
    if made == version + 1:
        return
    for draft in drafts:
        change = draft.change
        if isinstance(change, Refuse) and change.offers:
            offers = tuple({**offer, "at_version": version} for offer in change.offers)
            draft.change = replace(change, offers=offers)


def _is_refused(draft: PendingChange) -> bool:
    return isinstance(draft.change, Refuse) and _wants_offers(draft)


def _wants_offers(draft: PendingChange) -> bool:
    command, ask = draft.command, draft.ask
    whole = isinstance(command, Admission) and not command.atomic
    return whole and ask is not None and ask.offers > 0

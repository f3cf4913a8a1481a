"""Repair a Plan after a loss of machines: drop the least important, and move the least work.

The affected commitments are removed in some order until the rest fits; those whose removal was
unnecessary are put back; the others are placed again, the most important first, each by the least
disturbing move. Several orders are tried. Then unplaced commitments may displace those of lower
priority, affected or not, and local search improves the result by removing commitments around
unplaced ones. YARN's rule is one of the orders, so a repair never keeps less than YARN if nothing
has started (started work is pinned here, but not in YARN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent, Deadline, Limits, plans_early
from planner.agents import QUICK_AGENTS, agent_named
from planner.capacity.shortage import takings_of
from planner.plan.plan import Plan
from planner.replanning.commitment import (
    Commitment,
    Move,
    by_importance,
    commitment_of,
    window_of,
)
from planner.replanning.displacement_search import MOST_LOOKED_AT, DisplacementSearch
from planner.replanning.draft_plan import (
    DraftPlan,
    Overcommitment,
    exceeds_machines,
    shortage_of,
    work_moved,
)
from planner.replanning.local_search import (
    Candidate,
    Keep,
    LocalSearch,
    Place,
    Spans,
    any_may_move,
    remove_near_one_that_waits,
)
from planner.replanning.moves import CommitmentMoves
from planner.reservations.reservation import Holding
from planner.reservations.state import LIVE, STATE_NUMBERS, State

#: Rounds of improvement if neither time nor work is limited.
ROUNDS: Final = 200

#: Rounds of search for free capacity for a waiting commitment.
_ROOM_ROUNDS = 12

#: Most sets of commitments to try to displace for one of higher priority.
_MOST_SETS = 40


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The cost of a draft; less is better, compared part by part in order.

    Attributes
    ----------
    lost
        Value of commitments that hold less than they were promised, by priority, highest first.
        Costs of one repair have the same priorities.
    moved
        Work that moved in time, in steps of the whole cluster (`work_moved`).
    """

    lost: tuple[float, ...] = ()
    moved: float = 0.0

    @property
    def dropped(self) -> float:
        """Value of commitments that hold less than they were promised."""
        return round(sum(self.lost), 6)


class Repair:
    """One repair of one Plan.

    Parameters
    ----------
    plan
        Only read.
    draft
        The over-committed state on the present machines.
    agent
        Places removed commitments, one at a time.
    pinned
        Numbers of commitments that must not change.
    """

    def __init__(
        self,
        plan: Plan,
        draft: DraftPlan,
        agent: Agent | None = None,
        pinned: frozenset[int] = frozenset(),
    ) -> None:
        self.plan = plan
        self.base = draft
        self.agent = agent_named("portfolio") if agent is None else agent
        #: Free capacity of totals at the start.
        self.ledger = draft.ledger.copy()
        self.shortage = shortage_of(self.ledger)
        self.moves = CommitmentMoves(plan, self.shortage)
        self.nominal = self.ledger.book.cluster.nominal
        numbers = present_holders(plan)
        self._standing = numbers[~np.isin(numbers, list(pinned))] if pinned else numbers
        priorities = np.unique(plan.table.meta["priority"][self._standing])[::-1].tolist()
        self._level = {priority: level for level, priority in enumerate(priorities)}
        self._commitments: dict[int, Commitment] = {}
        self.hit = self._hit()

    def commitment(self, number: int) -> Commitment:
        """Return a commitment; its request is compiled once."""
        known = self._commitments.get(number)
        if known is None:
            known = self._commitments[number] = commitment_of(self.plan, number)
        return known

    def _hit(self) -> list[Commitment]:
        """Return the commitments that take over-committed capacity, or do not fit on machines."""
        found = []
        table, ledger = self.plan.table, self.ledger
        for number in self._standing.tolist():
            takings = takings_of(table.holding(number), ledger, *table.scope(number))
            short = self.shortage.hits(takings) or exceeds_machines(ledger, takings)
            if short or self._waits_for_machines(number):
                found.append(self.commitment(number))
        return found

    def _waits_for_machines(self, number: int) -> bool:
        """Return whether a commitment that is not degraded has slots without a machine."""
        degraded = self.plan.table.state(number) is State.DEGRADED
        return number in self.base.unplaced and not degraded

    def cost(self, draft: DraftPlan) -> Cost:
        """Return the cost of a draft."""
        lost = [0.0] * len(self._level)
        for one in draft.lifted.values():
            if one.state is not State.DEGRADED:  # it is already degraded
                lost[self._level[one.priority]] += one.value
        moved = sum(
            work_moved(one.before, holding, self.plan.now, self.nominal)
            for one, _, holding in draft.moved.values()
        )
        return Cost(tuple(round(value, 6) for value in lost), round(moved, 6))

    def run(self, limits: Limits | None = None) -> DraftPlan:
        """Return the best draft found; over-commitment is removed where possible."""
        best: tuple[Cost, DraftPlan] | None = None
        used = limits or Limits()
        deadline = Deadline(used, ROUNDS)
        for order in self._orders():
            draft = self.greedily(order)
            cost = self.cost(draft)
            if best is None or cost < best[0]:
                best = cost, draft
            if deadline.is_over():
                break
        assert best is not None
        draft = self._make_way(best[1], deadline)
        return self._improve(draft, used.seed, deadline)

    def _orders(self) -> list[list[Commitment]]:
        """Return the orders in which to remove commitments."""
        newest = sorted(self.hit, key=lambda one: -one.number)
        steps = {one.number: _share_steps(one, self) for one in self.hit}
        least = sorted(self.hit, key=lambda one: one.importance)
        idle = sorted(newest, key=lambda one: (one.started, one.value / max(1, steps[one.number])))
        large = sorted(newest, key=lambda one: (one.started, -steps[one.number]))
        yarn = yarn_order(self.base, self.hit)
        ranked = [sorted(one, key=_priority) for one in (yarn, newest, idle, large)]
        if len(self._level) > 1:
            return [yarn, least, *ranked]
        return [yarn, newest, least, idle, large]

    def greedily(self, order: Sequence[Commitment]) -> DraftPlan:
        """Remove in `order` until the rest fits, put back what fits, place the others again."""
        draft = self.base.copy()
        lifted: list[Commitment] = []
        for commitment in order:
            takings = draft.takings(commitment, commitment.before)
            short = shortage_of(draft.ledger).hits(takings)
            if (
                short
                or exceeds_machines(draft.ledger, takings)
                or commitment.number in draft.unplaced
            ):
                draft.lift(commitment)
                lifted.append(commitment)
        self._strip(draft)
        for commitment in reversed(lifted):
            draft.put_back(commitment)
        self.place_lifted(draft)
        return draft

    def _strip(self, draft: DraftPlan) -> None:
        """Break leases in force that do not fit either, those of degraded commitments first."""
        order = sorted(
            draft.lifted.values(), key=lambda one: (one.state is not State.DEGRADED, one.importance)
        )
        for commitment in order:
            short = shortage_of(draft.ledger)
            takings = draft.takings(commitment, draft.anchor(commitment))
            taken = short.counts and short.hits(takings)
            if taken or exceeds_machines(draft.ledger, takings) or draft.lacks_machines(commitment):
                draft.strip(commitment)

    def place_lifted(self, draft: DraftPlan) -> None:
        """Place removed commitments, the most important first, each with the least disturbance."""
        self.place_each(draft, draft.lifted.values())

    def place_each(self, draft: DraftPlan, commitments: Iterable[Commitment]) -> None:
        """Put removed commitments back or place them elsewhere, the most important first."""
        for commitment in by_importance(commitments):
            self.place(draft, commitment, self.agent)

    def place(self, draft: DraftPlan, commitment: Commitment, agent: Agent) -> bool:
        """Put a removed commitment back or place it elsewhere; return whether it has a place."""
        return draft.put_back(commitment) or any(
            draft.place(move, one)
            for move in self.moves.of(draft, commitment)
            for one in self.agents_for(commitment, agent)
        )

    def _make_way(self, draft: DraftPlan, deadline: Deadline) -> DraftPlan:
        """Displace commitments of lower priority for unplaced ones.

        Displaced commitments are placed again if there is free capacity, the most important first;
        leases in force stay.
        """
        for commitment in by_importance(draft.lifted.values()):
            if deadline.is_over():
                break
            if commitment.state is State.DEGRADED or commitment.number not in draft.lifted:
                continue
            lower = self._lower(draft, commitment)
            if not lower:
                continue
            deadline.rounds += 1

            def place(other: DraftPlan, wanted: Commitment = commitment) -> bool:
                return any(other.place(move, self.agent) for move in self.moves.of(other, wanted))

            trials = iter(range(_MOST_SETS))

            def over(left: Iterator[int] = trials) -> bool:
                return deadline.is_over() or next(left, None) is None

            found = DisplacementSearch(draft, place, over, breaks_leases=False).run(lower)
            if found is not None:
                draft, displaced = found
                self.place_each(draft, displaced)
        return draft

    def _lower(self, draft: DraftPlan, commitment: Commitment) -> list[Commitment]:
        """Return undegraded commitments of lower priority in the window of a commitment."""
        near, _ = self._spans.near(draft, *window_of(commitment, self.plan), commitment.number)
        priority = self.plan.table.meta["priority"]
        lower = [self.commitment(n) for n in near if priority[n] < commitment.priority]
        return sorted(lower, key=lambda one: one.importance)[:MOST_LOOKED_AT]

    @cached_property
    def _spans(self) -> Spans:
        """The spans of all commitments that are neither degraded nor pinned."""
        meta = self.plan.table.meta[self._standing]
        # A degraded one holds a part only: putting it back would drop what it just regained.
        whole = meta["state"] != STATE_NUMBERS[State.DEGRADED]
        begin, finish = (meta[name][whole].astype(np.int64) for name in ("begin", "finish"))
        return Spans(self._standing[whole], begin, finish, self.commitment)

    def agents_for(self, commitment: Commitment, agent: Agent | None = None) -> list[Agent]:
        """Return the agents that place a commitment, in order of preference."""
        own, other = self.early_agent(commitment), agent or self.agent
        return [other] if own is None else [agent_named(own), other]

    def early_agent(self, commitment: Commitment) -> str | None:
        """Return the agent of a commitment if it plans early, which leaves time after the work."""
        name = self.plan.table.agent_of(commitment.number)
        return name if name in QUICK_AGENTS and plans_early(agent_named(name)) else None

    def _improve(self, draft: DraftPlan, seed: int, deadline: Deadline) -> DraftPlan:
        """Free capacity for unplaced commitments by local search, as long as that helps."""
        start = self.evaluate(draft, "repair")
        if start.cost.dropped <= 0:
            return draft

        def is_over() -> bool:
            over = deadline.is_over()
            deadline.rounds += not over
            return over

        search = self._search(np.random.default_rng(seed), self.place)
        return search.run(start, is_over).draft

    def evaluate(self, draft: DraftPlan, source: str) -> Candidate[Cost]:
        """Return a draft with its score: the value lost by priority, then the work moved."""
        cost = self.cost(draft)
        return Candidate(draft, cost, (*cost.lost, cost.moved), source)

    def update(
        self, current: Candidate[Cost], draft: DraftPlan, changed: Sequence[Commitment]
    ) -> Candidate[Cost]:
        """Return a changed draft with its score."""
        return self.evaluate(draft, current.source)

    def _search(
        self, draw: np.random.Generator, place: Place, keep: Keep = Keep.NOTHING
    ) -> LocalSearch[Cost]:
        """Return a search that removes undegraded commitments around waiting ones.

        Of a started commitment only the rest is removed: leases in force stay.
        """
        return LocalSearch(
            self,
            lambda draft: list(draft.lifted.values()),
            self._spans,
            place,
            (self.agent,),
            ((1.0, remove_near_one_that_waits),),
            draw,
            may_remove=self._may_move if keep is Keep.ALL else any_may_move,
            keep=keep,
            ends_early=True,
        )

    def with_room_for(
        self,
        draft: DraftPlan,
        commitment: Commitment,
        ways: Sequence[Move],
        over: Callable[[], bool],
    ) -> DraftPlan | None:
        """Return a draft that places a waiting commitment without loss to others, or None."""

        def place(other: DraftPlan, one: Commitment, agent: Agent) -> bool:
            if one.number == commitment.number:
                return any(other.place(way, agent) for way in ways)
            return self.place(other, one, agent)

        search = self._search(np.random.default_rng(commitment.number), place, Keep.ALL)
        for _ in range(_ROOM_ROUNDS):
            if over():
                return None
            trial = draft.copy()
            if search.try_once(trial, draft, commitment) is not None:
                return trial
        return None

    def _may_move(self, other: Commitment, waiting: Commitment) -> bool:
        """Return whether a commitment may move for another that waits.

        If policies allow displacement, none moves for a lower priority, which it may have
        displaced.
        """
        return not self.plan.cluster.displacement_rules or other.priority <= waiting.priority


def _priority(commitment: Commitment) -> int:
    return commitment.priority


def present_holders(plan: Plan) -> NDArray[np.int64]:
    """Return the numbers of live reservations with a future allocation, in order of admission."""
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    return np.flatnonzero(live & (meta["finish"] > plan.now) & (meta["atoms"] > 0))


def _share_steps(commitment: Commitment, repair: Repair) -> float:
    nothing = Holding((), 0, 0)
    return work_moved(nothing, commitment.before, repair.plan.now, repair.nominal)


def yarn_order(draft: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return the commitments that YARN's rule drops, newest first, then the others."""
    dropped = yarn_rule(draft, hit)
    first = {one.number for one in dropped}
    return dropped + [one for one in reversed(hit) if one.number not in first]


def yarn_rule(draft: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return the commitments that YARN's SimpleCapacityReplanner drops: step by step, newest first.

    Parameters
    ----------
    hit
        Commitments in order of admission.
    """
    trial = draft.copy()
    dropped: list[Commitment] = []
    while True:
        short = shortage_of(trial.ledger)
        if not short.counts:
            return dropped
        step = min(int(np.argmax(np.diff(count) > 0)) for count in short.counts.values())
        at = np.array([[step + short.first, step + short.first + 1, 1]], dtype=np.int64)
        victim = next((one for one in reversed(hit) if _takes_at(trial, one, short, at)), None)
        if victim is None:
            return dropped
        _drop(trial, victim)
        dropped.append(victim)


def _takes_at(
    draft: DraftPlan, commitment: Commitment, short: Overcommitment, at: NDArray[np.int64]
) -> bool:
    if commitment.number in draft.stripped:
        return False
    step = int(at[0, 0])
    for taking in draft.takings(commitment, draft.held_by(commitment.number)):
        rows = taking.rows
        here = bool(((rows[:, 0] <= step) & (step < rows[:, 1])).any())
        if here and any(row in short.counts for row in taking.demand.rows):
            return True
    return False


def _drop(draft: DraftPlan, commitment: Commitment) -> None:
    draft.lift(commitment)
    draft.strip(commitment)

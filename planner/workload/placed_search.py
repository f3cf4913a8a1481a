"""Ruin and recreate on machines: requests that meet make way for one that waits, the better stays.

A trial takes a waiting request and takes out some that stand near a moment of its window. It comes
in first, or all of them by what they are worth; who stood before goes back to its place if that is
still free, or elsewhere. What is worth less than before is undone, so that the plan is never worse
than its start, whenever it is stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.capacity.shortage import Taking, takings_of
from planner.metrics import count_falls
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import limit_refusal
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import Found, machines_refusal, place_alone, place_by_agent
from planner.plan.plan import Plan
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding
from planner.value import size_of, value_of
from rdl.work_graph import END, START

I64 = NDArray[np.int64]

#: Agents that say when; each finds other times.
_PLACERS: Final = ("gree-l", "gree", "earliest", "aligned")

#: Most requests taken out in one trial.
_MOST_OUT: Final = 80

#: How often who was taken out tries its own place first; one of these in each trial.
_BACK: Final = (0.0, 0.9, 0.9)

#: Standard deviation of the logarithm of what an order by worth takes somebody to be worth.
_NOISE: Final = 0.3

#: Others that wait and are tried in what a trial leaves.
_OTHERS: Final = 2

#: Part of a value that rounding may lose.
_SAME: Final = 1e-9

#: How often an agent is asked for a place that machines do not hold.
_ROUNDS: Final = 3

_NOT_TRIED: Final = "there may be a place: the search ended before it was found"


class HeldPlace(NamedTuple):
    """Where a request stands.

    Attributes
    ----------
    result
        The answer to it.
    holding
        What it holds, with slots.
    takings
        What that takes of totals.
    value
        What it is worth there.
    """

    result: PlacementResult
    holding: Holding
    takings: list[Taking]
    value: float


class _Step(NamedTuple):
    """One request taken out (sign -1) or put in (1), after a savepoint of the draft."""

    request: int
    place: HeldPlace
    sign: int
    savepoint: int


class PlacedRequests:
    """Which requests are placed, and where, on a draft.

    Unlike in `planner.replanning.draft_plan.DraftPlan` nothing has begun here and nothing is
    promised yet: a request may be lost for others that are worth more.

    Parameters
    ----------
    origin
        The Plan without the requests; it is not changed.
    trial
        A copy of it on which those that have a place are admitted; it is changed from now on.
    requests
        All that may be put in or taken out.
    held
        Index -> where it stands on the trial.

    Attributes
    ----------
    value
        What all that is held is worth.
    """

    def __init__(
        self,
        origin: Plan,
        trial: Plan,
        requests: Sequence[Request],
        held: dict[int, tuple[PlacementResult, Holding]],
    ) -> None:
        self.origin, self.requests = origin, requests
        self.reference = origin.cluster.reference
        self._draft = Draft.of(trial)
        self.held = {index: self._place_of(index, *place) for index, place in held.items()}
        self.value = sum(place.value for place in self.held.values())
        self._steps: list[_Step] = []
        self._counted = bool(origin.cluster.policies)
        self._added: Counter[tuple[str, str]] = Counter()
        for index in self.held:
            self._count(index, 1)

    def _place_of(self, index: int, result: PlacementResult, holding: Holding) -> HeldPlace:
        value = value_of(self.requests[index], result.choices, self.reference)
        return HeldPlace(result, holding, self._takings(index, holding), value)

    def _takings(self, index: int, holding: Holding) -> list[Taking]:
        request = self.requests[index]
        return takings_of(holding, self._draft.ledger, request.tenant, request.queue)

    def take_out(self, index: int) -> None:
        """Let a request hold nothing."""
        place, savepoint = self.held[index], self._draft.savepoint()
        self._draft.remove(place.holding, place.takings)
        self._note(_Step(index, place, -1, savepoint))

    def put_in(self, index: int, agent: Agent | None) -> bool:
        """Find a request a place on machines, and take it; return whether there is one.

        Parameters
        ----------
        agent
            Asked for the times first; None asks nobody. A request of one atom is then searched for
            on machines.
        """
        request, draft = self.requests[index], self._draft
        if self._is_one_too_many(index):
            return False
        savepoint = draft.savepoint()
        found: Found | MachineShortage | None = None
        if agent is not None:
            found = place_by_agent(draft, request, agent, _ROUNDS)
        if found is None or isinstance(found, MachineShortage):
            found = place_alone(draft, request)
        if found is None:
            return False
        place = self._place_of(index, *found)
        draft.take(place.takings)
        self._note(_Step(index, place, 1, savepoint))
        return True

    def lay(self, index: int, result: PlacementResult) -> bool:
        """Put a request where an agent placed it, if totals and machines hold it there."""
        request, draft = self.requests[index], self._draft
        if self._is_one_too_many(index):
            return False
        savepoint, holding = draft.savepoint(), holding_of(request, result)
        if draft.shortage(self._takings(index, holding)) is not None:
            return False
        found = draft.place_exactly(holding, request.graph)
        if isinstance(found, MachineShortage):
            return False
        place = self._place_of(index, result, found)
        draft.take(place.takings)
        self._note(_Step(index, place, 1, savepoint))
        return True

    def put_back(self, index: int, place: HeldPlace) -> bool:
        """Put a request where it stood before, machines included; return whether it fits there."""
        savepoint = self._draft.savepoint()
        if self._is_one_too_many(index):
            return False
        if not self._draft.restore(place.holding, place.takings):
            return False
        self._note(_Step(index, place, 1, savepoint))
        return True

    def _is_one_too_many(self, index: int) -> bool:
        """Return whether a `limits` policy refuses a request next to those that are held."""
        return (
            self._counted
            and limit_refusal(self.origin, self.requests[index], self._added) is not None
        )

    def mark(self) -> int:
        """Return where the requests are, for :meth:`undo`."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Undo what was done since a mark."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            self._draft.roll_back(step.savepoint)
            self._count_step(step, -1)

    def keep(self) -> None:
        """Undo nothing of what was done so far."""
        self._draft.keep()
        self._steps.clear()

    def _note(self, step: _Step) -> None:
        self._steps.append(step)
        self._count_step(step, 1)

    def _count_step(self, step: _Step, way: int) -> None:
        """Let counts and the value follow a step (1), or its undoing (-1)."""
        sign = step.sign * way
        self.value += sign * step.place.value
        self._count(step.request, sign)
        if sign > 0:
            self.held[step.request] = step.place
        else:
            del self.held[step.request]

    def _count(self, index: int, sign: int) -> None:
        request = self.requests[index]
        self._added[request.tenant, request.queue] += sign

    def refusal(self, index: int, agent: Agent) -> PlacementResult:
        """Return why a request that waits has no place: the agent's answer, or machines."""
        request, draft = self.requests[index], self._draft
        result = agent.plan([request], draft.view(), Limits())[0]
        if not result.placed:
            return result
        savepoint = draft.savepoint()
        found = draft.place_exactly(holding_of(request, result), request.graph)
        draft.roll_back(savepoint)
        if isinstance(found, MachineShortage):
            return machines_refusal(found, draft.ledger.grid, request)
        return PlacementResult(Code.TIME_LIMIT, _NOT_TRIED)


@dataclass(slots=True)
class PlacedSearch:
    """One search over one draft.

    Attributes
    ----------
    draft
        What is held; it is never worth less than at the start.
    turns
        Of each request; who is lost has no earlier turn than somebody who comes in. Empty where
        there are no turns.
    trials
        How many were made.
    """

    draft: PlacedRequests
    turns: Sequence[int] = ()
    seed: int = 0
    trials: int = 0
    _draw: np.random.Generator = field(init=False)
    _worth: NDArray[np.float64] = field(init=False)
    _windows: I64 = field(init=False)
    _spans: I64 = field(init=False)

    def __post_init__(self) -> None:
        """Read what never changes of the requests."""
        requests, reference = self.draft.requests, self.draft.reference
        self._draw = np.random.default_rng(self.seed)
        worth = [one.weight * size_of(one.graph, reference) for one in requests]
        self._worth = np.array(worth, dtype=np.float64)
        windows = [one.graph.vertices[-1, [START, END]] for one in requests]
        self._windows = np.array(windows, dtype=np.int64).reshape(-1, 2)
        self._spans = np.zeros((len(requests), 2), dtype=np.int64)
        self._note(range(len(requests)))

    def lay_again(
        self, answers: Mapping[int, PlacementResult], is_over: Callable[[], bool]
    ) -> None:
        """Lay everything in other orders, what is worth most first; keep what is better.

        Parameters
        ----------
        answers
            Where an agent placed requests, by index, seen on totals.
        """
        turns = np.array(self.turns or [0] * len(self._worth), dtype=np.int64)
        weights = np.array([one.weight for one in self.draft.requests])
        for keys in ((-self._worth, turns), (-self._worth, -weights, turns)):
            self._lay(np.lexsort(keys).tolist(), answers, is_over)

    def _lay(
        self,
        order: Sequence[int],
        answers: Mapping[int, PlacementResult],
        is_over: Callable[[], bool],
    ) -> None:
        """Lay everything in an order; leave all as it was where that is no better or too late."""
        draft, agent = self.draft, agent_named(_PLACERS[0])
        mark, before, held = draft.mark(), draft.value, dict(draft.held)
        for one in held:
            draft.take_out(one)
        over = False
        for one in order:
            over = over or is_over()
            if over:
                break
            if one not in answers or not draft.lay(one, answers[one]):
                draft.put_in(one, agent)
        if not over and self._is_no_worse(order, held, before):
            draft.keep()
            self._note(order)
        else:
            draft.undo(mark)

    def run(self, is_over: Callable[[], bool], tell: Callable[[float], None]) -> None:
        """Make trials until it is over, or nobody of any worth waits.

        Parameters
        ----------
        tell
            Told of the value when it has risen.
        """
        while not is_over():
            waiting = np.flatnonzero((self._spans[:, 1] == 0) & (self._worth > 0))
            if not len(waiting):
                return
            self.trials += 1
            before = self.draft.value
            self._trial(waiting)
            if self.draft.value > before:
                tell(self.draft.value)

    def _trial(self, waiting: I64) -> None:
        """Try to let one that waits come in; leave all as it was where that is no better."""
        draft, draw = self.draft, self._draw
        share = np.sqrt(self._worth[waiting])
        seed = int(draw.choice(waiting, p=share / share.sum()))
        out = self._near(seed)
        others = self._rivals(waiting, seed)
        mark, before, held = draft.mark(), draft.value, {one: draft.held[one] for one in out}
        for one in out:
            draft.take_out(one)
        order = [*self._order(seed, out), *others]
        self._recreate(order, held, before * (1 - _SAME))
        if self._is_no_worse(order, held, before):
            draft.keep()
            self._note(order)
        else:
            draft.undo(mark)

    def _near(self, seed: int) -> list[int]:
        """Return who stands nearest to a moment of a request's window, in time."""
        draw, (low, high) = self._draw, self._windows[seed].tolist()
        begin, finish = self._spans.T
        near = np.flatnonzero((begin < high) & (finish > low))
        at = int(draw.integers(low, high))
        away = np.maximum(np.maximum(begin[near] - at, at - finish[near]), 0)
        noise = draw.random(len(near)) * max(1, high - low) / 8
        near = near[np.argsort(away + noise, kind="stable")]
        if draw.random() < 0.5:  # as many as make up what it takes, about
            wanted = self._worth[seed] * float(np.exp(draw.uniform(-1, 2)))
            count = 1 + int(np.searchsorted(np.cumsum(self._worth[near]), wanted))
        else:
            count = int(np.exp(draw.uniform(0.5, np.log(_MOST_OUT + 1))))
        return [int(one) for one in near[: min(count, _MOST_OUT)]]

    def _rivals(self, waiting: I64, seed: int) -> list[int]:
        """Return some others that wait and ask for times in the same window."""
        low, high = self._windows[seed].tolist()
        starts, ends = self._windows[waiting].T
        same = waiting[(starts < high) & (ends > low) & (waiting != seed)]
        return [int(one) for one in self._draw.permutation(same)[:_OTHERS]]

    def _order(self, seed: int, out: Sequence[int]) -> list[int]:
        """Return an order to put them in: the seed first, or by worth, or the nearest first."""
        kind = int(self._draw.integers(3))
        if kind == 0:
            return [seed, *out]
        return [seed, *self._by_worth(out)] if kind == 1 else self._by_worth([seed, *out])

    def _by_worth(self, requests: Sequence[int]) -> list[int]:
        """Return requests by about what they are worth, the most first."""
        spread = _NOISE * float(self._draw.random())
        noise = np.exp(self._draw.normal(0, spread, len(requests)))
        order = np.argsort(-self._worth[list(requests)] * noise, kind="stable")
        return [requests[place] for place in order]

    def _recreate(self, order: Sequence[int], held: dict[int, HeldPlace], floor: float) -> None:
        """Put requests in, until it is plain that they are worth less than before."""
        draft, draw = self.draft, self._draw
        placer = agent_named(_PLACERS[int(draw.integers(len(_PLACERS)))])
        lone = None if draw.random() < 0.5 else placer
        back = _BACK[int(draw.integers(len(_BACK)))]
        rest = float(self._worth[list(order)].sum())
        for one in order:
            if draft.value + rest < floor:
                return
            rest -= self._worth[one]
            stood = held.get(one)
            if stood is not None and draw.random() < back and draft.put_back(one, stood):
                continue
            alone = len(draft.requests[one].graph.vertices) == 1
            draft.put_in(one, lone if alone else placer)

    def _is_no_worse(
        self, order: Sequence[int], before: dict[int, HeldPlace], value: float
    ) -> bool:
        """Return whether a trial is worth more, or as much with no more falls."""
        draft = self.draft
        after = {one: draft.held[one] for one in order if one in draft.held}
        if not self._keeps_turns(before.keys() - after.keys(), after.keys() - before.keys()):
            return False
        slack = _SAME * abs(value)
        if abs(draft.value - value) > slack:
            return draft.value > value
        return _falls(after.values()) <= _falls(before.values())

    def _keeps_turns(self, lost: set[int], gained: set[int]) -> bool:
        if not lost or not self.turns:
            return True
        first = min((self.turns[one] for one in gained), default=None)
        return first is not None and min(self.turns[one] for one in lost) >= first

    def _note(self, requests: Sequence[int]) -> None:
        """Note when requests stand; those that wait never do."""
        for one in requests:
            place = self.draft.held.get(one)
            span = (0, 0) if place is None else (place.holding.begin, place.holding.finish)
            self._spans[one] = span


def _falls(places: Iterable[HeldPlace]) -> int:
    """Return the bundles that fall from step to step."""
    return count_falls(
        rows
        for place in places
        for atom in place.holding.atoms
        for _, rows in atom.occurrences()
        if len(rows)
    )[0]

"""Ruin and recreate on machines: requests that meet make way for one that waits, the better stays.

A trial takes a waiting request and takes out some that stand near a moment of its window. It comes
in first, or all of them by what they are worth; who stood before goes back to its place if that is
still free, or elsewhere. What is worth less than before is undone, so that the plan is never worse
than its start, whenever it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.agents import agent_named
from planner.metrics import count_falls
from planner.placement import PlacementResult
from planner.value import size_of
from planner.workload.placed_requests import HeldPlace, PlacedRequests
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

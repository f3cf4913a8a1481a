"""Local search on drafts of a Plan: remove some commitments, insert them again, keep the better.

A trial copies the current draft. An operator chooses waiting commitments and removes conflicting
ones; all of them are inserted again in some order, each in its own place if that is free, or
elsewhere. An objective scores the result, and a rule accepts it or not. Optimisation, repair and
the search on machines for a workload differ only in these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent
from planner.replanning.commitment import Commitment, by_importance, window_of
from planner.replanning.draft_plan import DraftPlan

#: Tolerance for comparing values, as a share.
SAME: Final = 1e-9

#: Most commitments to remove, one after the other, until a waiting one fits.
_MOST_IN_THE_WAY: Final = 8

#: One more than the most commitments to remove around one of them.
_MOST_AROUND_ONE: Final = 5

#: Most commitments to remove around an instant.
_MOST_AROUND: Final = 80

#: Most other waiting commitments to insert last.
_OTHERS: Final = 2

#: Largest standard deviation of the logarithm of the noise on values for sorting.
_NOISE: Final = 0.3

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[C]):
    """A draft of the Plan with its score.

    Attributes
    ----------
    score
        Less is better; compared part by part.
    source
        Name of the search that found it.
    """

    draft: DraftPlan
    cost: C
    score: tuple[float, ...]
    source: str = "plan"


class SearchObjective(Protocol[C]):
    """Scores drafts."""

    def evaluate(self, draft: DraftPlan, source: str) -> Candidate[C]:
        """Return a draft with its score."""

    def update(
        self, current: Candidate[C], draft: DraftPlan, changed: Sequence[Commitment]
    ) -> Candidate[C]:
        """Return the score of a draft that differs from a candidate in some commitments."""


#: Returns whether a search continues from a trial instead of from the current candidate.
Accept: TypeAlias = Callable[[Candidate[C], Candidate[C], Sequence[Commitment]], bool]

#: Places a removed commitment; returns whether there is a place.
Place: TypeAlias = Callable[[DraftPlan, Commitment, Agent], bool]


class Keep(Enum):
    """Conditions of a trial; a trial that violates them is abandoned."""

    ALL = "all"
    """Every commitment placed before is placed."""

    VALUE = "value"
    """At least the same value."""

    NOTHING = "nothing"
    """Only the score counts."""


def any_may_move(other: Commitment, waiting: Commitment) -> bool:
    """Allow removing any commitment for one that waits."""
    return True


def unless_begun(other: Commitment, waiting: Commitment) -> bool:
    """Allow removing commitments that have not started."""
    return not other.started


def any_may_come(draft: DraftPlan, commitment: Commitment) -> bool:
    """Allow inserting any commitment."""
    return True


def accept_better(current: Candidate[C], trial: Candidate[C], _: Sequence[Commitment]) -> bool:
    """Accept a better score."""
    return trial.score < current.score


def accept_as_good_first(
    current: Candidate[C], trial: Candidate[C], _: Sequence[Commitment]
) -> bool:
    """Accept if the first part of the score is no worse, so that a search drifts."""
    return trial.score[0] <= current.score[0]


class Operator(Protocol):
    """Chooses waiting commitments and removes conflicting ones."""

    def __call__(
        self, search: LocalSearch[Any], draft: DraftPlan, agent: Agent, seed: Commitment | None
    ) -> Removal | None:
        """Remove commitments from a draft; None if there is nothing to try.

        Parameters
        ----------
        agent
            Places the seed, if the operator does.
        seed
            The commitment to place; by default it chooses a waiting one.
        """


class Removal(NamedTuple):
    """The commitments that an operator removed from a draft.

    Attributes
    ----------
    placed
        Those that have a new place already.
    order
        Those to insert, in this order; waiting ones are included.
    """

    placed: list[Commitment]
    order: list[Commitment]


class Spans:
    """The times of movable commitments on the Plan.

    Parameters
    ----------
    numbers, begin, finish
        int64[n] each.
    commitment
        Returns a commitment by its number.
    """

    def __init__(
        self,
        numbers: NDArray[np.int64],
        begin: NDArray[np.int64],
        finish: NDArray[np.int64],
        commitment: Callable[[int], Commitment],
    ) -> None:
        self._numbers, self._begin, self._finish = numbers, begin, finish
        #: Returns a commitment by its number.
        self.get = commitment
        self._index = {number: index for index, number in enumerate(numbers.tolist())}

    @classmethod
    def of(cls, commitments: Sequence[Commitment]) -> Spans:
        """Return the spans of commitments."""
        spans = [(one.number, one.before.begin, one.before.finish) for one in commitments]
        numbers, begin, finish = np.array(spans, dtype=np.int64).reshape(-1, 3).T
        return cls(numbers, begin, finish, {one.number: one for one in commitments}.__getitem__)

    def near(
        self, draft: DraftPlan, low: int, high: int, without: int | None = None
    ) -> tuple[list[int], NDArray[np.int64]]:
        """Return the numbers of commitments placed in [low, high), and int64[n, 2]: their times.

        Parameters
        ----------
        without
            Number of a commitment to leave out.
        """
        begin, finish = self._begin.copy(), self._finish.copy()
        for number, (_, _, holding) in draft.moved.items():
            index = self._index.get(number)
            if index is not None:
                begin[index], finish[index] = holding.begin, holding.finish
        for absent in (*draft.lifted, without):
            index = None if absent is None else self._index.get(absent)
            if index is not None:
                begin[index] = finish[index] = low
        found = np.flatnonzero((finish > low) & (begin < high))
        return self._numbers[found].tolist(), np.stack([begin[found], finish[found]], axis=1)


@dataclass(slots=True)
class LocalSearch(Generic[C]):
    """One search.

    Attributes
    ----------
    waiting
        Returns the waiting commitments of a draft.
    spans
        Spans of all removable commitments.
    place
        Places a commitment.
    agents
        One of them is drawn for each trial.
    operators
        One is drawn for each trial, by weight.
    back
        Probabilities that a removed commitment tries its own place first; one of them is drawn for
        each trial.
    may_remove
        Whether one commitment (the first) may be removed for another.
    may_insert
        Whether a removed commitment may be placed in a draft.
    keep
        Conditions of a trial, which is discarded as soon as it violates them.
    ends_early
        Whether to stop when nothing waits.
    trials
        Number of trials made.
    """

    objective: SearchObjective[C]
    waiting: Callable[[DraftPlan], list[Commitment]]
    spans: Spans
    place: Place
    agents: Sequence[Agent]
    operators: Sequence[tuple[float, Operator]]
    draw: np.random.Generator
    accept: Accept[C] = accept_better
    back: Sequence[float] = (0.0,)
    may_remove: Callable[[Commitment, Commitment], bool] = any_may_move
    may_insert: Callable[[DraftPlan, Commitment], bool] = any_may_come
    keep: Keep = Keep.ALL
    ends_early: bool = False
    trials: int = field(default=0, init=False)

    def run(
        self,
        start: Candidate[C],
        is_over: Callable[[], bool],
        report: Callable[[Candidate[C]], None] = lambda _: None,
    ) -> Candidate[C]:
        """Return the best candidate found until `is_over`.

        Parameters
        ----------
        is_over
            Called before each trial.
        report
            Called with each better candidate.
        """
        best = current = start
        while not (self.ends_early and not self.waiting(current.draft)) and not is_over():
            self.trials += 1
            draft = current.draft.copy()
            changed = self.try_once(draft, current.draft)
            if changed is None:
                continue
            trial = self.objective.update(current, draft, changed)
            if not self.accept(current, trial, changed):
                continue
            current = trial
            if trial.score < best.score:
                best = trial
                report(best)
        return best

    def try_once(
        self, draft: DraftPlan, before: DraftPlan, seed: Commitment | None = None
    ) -> list[Commitment] | None:
        """Remove and insert commitments of a draft; return them, or None if the trial failed.

        Parameters
        ----------
        before
            The draft before the trial.
        seed
            The waiting commitment to place; by default one is drawn.
        """
        agent = self.agents[int(self.draw.integers(len(self.agents)))]
        removal = self._operator()(self, draft, agent, seed)
        if removal is None:
            return None
        back = self.back[int(self.draw.integers(len(self.back)))]
        most = sum(one.value for one in removal.order)
        floor = sum(one.value for one in removal.order if one.number not in before.lifted)
        floor -= sum(one.value for one in removal.placed)
        for one in removal.order:
            own = one.number not in before.lifted
            if not self._insert(draft, before, one, agent, back if own else 0.0):
                most -= one.value
                if own and self.keep is Keep.ALL:
                    return None
                if self.keep is Keep.VALUE and most < floor * (1 - SAME):
                    return None
        return [*removal.placed, *removal.order]

    def _operator(self) -> Operator:
        *others, (_, last) = self.operators
        if others:
            chance = self.draw.random()
            for weight, operator in others:
                if chance < weight:
                    return operator
                chance -= weight
        return last

    def _insert(
        self, draft: DraftPlan, before: DraftPlan, one: Commitment, agent: Agent, back: float
    ) -> bool:
        """Place a commitment where it was, or elsewhere."""
        if not self.may_insert(draft, one):
            return False
        if back and self.draw.random() < back and draft.return_to(before, one):
            return True
        return self.place(draft, one, agent) or (back > 0 and draft.return_to(before, one))

    def near(self, draft: DraftPlan, seed: Commitment) -> Iterator[Commitment]:
        """Yield all removable commitments in the window of a commitment, in random order."""
        numbers, _ = self.spans.near(draft, *window_of(seed, draft.plan), seed.number)
        for index in self.draw.permutation(len(numbers)).tolist():
            one = self.spans.get(numbers[index])
            if self.may_remove(one, seed):
                yield one


def one_of(draw: np.random.Generator, items: Sequence[T]) -> T:
    """Return a random item."""
    return items[int(draw.integers(len(items)))]


def remove_until_one_fits(
    search: LocalSearch[Any], draft: DraftPlan, agent: Agent, seed: Commitment | None
) -> Removal | None:
    """Remove commitments in the window of a waiting one, a few at a time, until it fits."""
    waiting = search.waiting(draft)
    if seed is None and not waiting:
        return remove_a_few(search, draft, agent, None)
    wanted = seed or one_of(search.draw, waiting)
    near = search.near(draft, wanted)
    count = int(search.draw.integers(1, 4))
    removed: list[Commitment] = []
    while not search.place(draft, wanted, agent):
        more = list(islice(near, min(count, _MOST_IN_THE_WAY - len(removed))))
        if not more:
            return None
        for one in more:
            draft.lift(one)
        removed += more
    return Removal([wanted], shuffled(search.draw, removed))


def remove_near_one_that_waits(
    search: LocalSearch[Any], draft: DraftPlan, agent: Agent, seed: Commitment | None
) -> Removal | None:
    """Remove a few in the window of a waiting commitment and place it; then all waiting ones."""
    waiting = search.waiting(draft)
    if seed is None and not waiting:
        return None
    wanted = seed or one_of(search.draw, waiting)
    count = int(search.draw.integers(1, _MOST_AROUND_ONE))
    removed = list(islice(search.near(draft, wanted), count))
    for one in removed:
        draft.lift(one)
    if not search.place(draft, wanted, agent):
        return None
    others = removed if seed else search.waiting(draft)
    return Removal([wanted], by_importance(others))


def remove_a_few(
    search: LocalSearch[Any], draft: DraftPlan, agent: Agent, seed: Commitment | None
) -> Removal | None:
    """Remove a moved or random commitment and a few near it; or a few near a waiting one."""
    draw = search.draw
    waiting = [one.number for one in search.waiting(draft)]
    placed, _ = search.spans.near(draft, 0, draft.plan.grid.horizon)
    moved = [number for number in placed if number in draft.moved]
    pools = [pool for pool in (waiting, waiting, moved, [*placed, *waiting]) if pool]
    if seed is None and not pools:
        return None
    wanted = seed or search.spans.get(one_of(draw, pools[int(draw.integers(len(pools)))]))
    count = int(draw.integers(0, _MOST_AROUND_ONE))
    removed = [wanted, *islice(search.near(draft, wanted), count)]
    for one in removed:
        if one.number not in draft.lifted:
            draft.lift(one)
    return Removal([], shuffled(draw, removed))


def remove_around_a_moment(
    search: LocalSearch[Any], draft: DraftPlan, agent: Agent, seed: Commitment | None
) -> Removal | None:
    """Remove the commitments nearest to an instant in the window of a waiting one.

    Removes either about the same value, or a random number. Other waiting commitments for the same
    time are inserted last.
    """
    draw = search.draw
    waiting = search.waiting(draft)
    if not waiting:
        return None
    share = np.sqrt([one.value for one in waiting])
    wanted = seed or waiting[int(draw.choice(len(waiting), p=share / share.sum()))]
    low, high = window_of(wanted, draft.plan)
    numbers, spans = search.spans.near(draft, low, high, wanted.number)
    at = int(draw.integers(low, max(low + 1, high)))
    away = np.maximum(np.maximum(spans[:, 0] - at, at - spans[:, 1]), 0)
    noise = draw.random(len(numbers)) * max(1, high - low) / 8
    nearest = np.argsort(away + noise, kind="stable").tolist()
    near = [search.spans.get(numbers[index]) for index in nearest]
    if draw.random() < 0.5:
        value = wanted.value * float(np.exp(draw.uniform(-1, 2)))
        count = 1 + int(np.searchsorted(np.cumsum([one.value for one in near]), value))
    else:
        count = int(np.exp(draw.uniform(0.5, np.log(_MOST_AROUND + 1))))
    removed = [one for one in near[: min(count, _MOST_AROUND)] if search.may_remove(one, wanted)]
    for one in removed:
        draft.lift(one)
    rivals = [one for one in waiting if one is not wanted and _meets(one, low, high, draft)]
    others = [rivals[index] for index in draw.permutation(len(rivals))[:_OTHERS].tolist()]
    kind = int(draw.integers(3))
    if kind == 2:
        order = _by_value(draw, [wanted, *removed])
    else:
        order = [wanted, *(_by_value(draw, removed) if kind else removed)]
    return Removal([], [*order, *others])


def _meets(one: Commitment, low: int, high: int, draft: DraftPlan) -> bool:
    start, end = window_of(one, draft.plan)
    return start < high and end > low


def _by_value(draw: np.random.Generator, commitments: Sequence[Commitment]) -> list[Commitment]:
    """Return commitments by value with random noise, the highest first."""
    spread = _NOISE * float(draw.random())
    noise = np.exp(draw.normal(0, spread, len(commitments)))
    values = np.array([one.value for one in commitments])
    return [commitments[index] for index in np.argsort(-values * noise, kind="stable").tolist()]


def shuffled(draw: np.random.Generator, chosen: Sequence[Commitment]) -> list[Commitment]:
    """Return an order of insertion: as chosen, the most important first, or random."""
    kind = int(draw.integers(3))
    if kind == 0:
        return list(chosen)
    if kind == 1:  # ties keep their order
        return sorted(chosen, key=lambda one: one.importance[:2], reverse=True)
    return [chosen[index] for index in draw.permutation(len(chosen)).tolist()]

"""Counter-offers: what little would have to change for a refused request to be accepted.

Four kinds of change are tried: a later deadline, an earlier start, less of it (work of malleable
atoms, height of gangs), and one option of an `any` alone. Every offer has been planned by the same
agent on the same view before it is made, so that, sent back unchanged in the same version of the
Plan, it is accepted. They are ranked by how little they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from planner.agent import Agent, Limits
from planner.placement import PlacementResult, shifts_of
from planner.request import Request
from planner.variants import (
    deadline_ms,
    resized,
    single_options,
    start_ms,
    with_deadline,
    with_start,
)
from planner.view import PlanView
from rdl.compile_context import CompileContext
from rdl.compiler import compile_expression
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.formatter import format_expression
from rdl.time_grid import seconds_of

#: A size is offered in so many parts of what was asked.
SIZE_PARTS: Final = 64

#: Deadlines tried past the earliest end, as shares of what is left to the horizon.
_WIDENING: Final = (0.0, 0.05, 0.25, 1.0)

#: Options of an `any` tried alone.
_MOST_OPTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Offer:
    """One request that would be accepted.

    Attributes
    ----------
    expression
        The changed request, canonical text.
    kind
        ``deadline``, ``start``, ``size`` or ``option``.
    asked, offered
        Before and after: seconds from the origin, a share of the work, the index of the option.
    share
        How much changes, 0 for nothing: time relative to the asked window, work to the asked work,
        worth of the option to the best.
    at_version
        Version of the Plan in which it holds.
    """

    expression: str
    kind: str
    asked: float | None
    offered: float
    share: float
    at_version: int

    def to_json(self) -> dict[str, object]:
        """Return the entry of files.md: `{expression, change, at_version}`."""
        change = {
            "kind": self.kind,
            "asked": self.asked,
            "offered": self.offered,
            "share": round(self.share, 6),
        }
        return {"expression": self.expression, "change": change, "at_version": self.at_version}


@dataclass(frozen=True, slots=True)
class Seeker:
    """What offers are sought for and with.

    Attributes
    ----------
    request
        Identity of the refused request (its graph is not read, so one that did not compile for
        want of time in its window can be helped too).
    expression
        As submitted.
    context
        What variants are compiled against.
    view, agent
        The state of the Plan and the agent that refused; the same agent answers the offer.
    allowed
        Refusal of a variant by what agents do not see (limits on windows), or None.
    """

    request: Request
    expression: Expression
    context: CompileContext
    view: PlanView
    agent: Agent
    allowed: Callable[[Request], PlacementResult | None] = lambda request: None

    def trial(self, expression: Expression, agent: Agent | None = None) -> int | None:
        """Return the step at which a variant would end, or None where it is refused."""
        placed = self._placed(expression, agent or self.agent)
        if placed is None:
            return None
        request, result = placed
        ends = [
            int(rows[-1, 1]) + int(shifts_of(request.graph, vertex)[-1])
            for vertex, rows in result.atoms()
        ]
        return max(ends, default=request.graph.submitted)

    def begin(self, expression: Expression) -> int | None:
        """Return the step at which a variant would start, or None where it is refused."""
        placed = self._placed(expression, self.agent)
        if placed is None:
            return None
        request, result = placed
        starts = [int(rows[0, 0]) for _, rows in result.atoms()]
        return min(starts, default=request.graph.submitted)

    def _placed(
        self, expression: Expression, agent: Agent
    ) -> tuple[Request, PlacementResult] | None:
        try:
            graph = compile_expression(expression, self.context)
        except RdlError:
            return None  # a variant that cannot be said is no offer
        request = replace(self.request, graph=graph)
        if self.allowed(request) is not None:
            return None
        result = agent.plan([request], self.view, Limits())[0]
        return (request, result) if result.placed else None

    def offer(
        self, expression: Expression, kind: str, asked: float | None, offered: float, share: float
    ) -> Offer:
        """Write down a variant that was accepted."""
        text = format_expression(expression)
        return Offer(text, kind, asked, offered, share, self.view.version)


def find_offers(seeker: Seeker, most: int = 3) -> tuple[Offer, ...]:
    """Return up to `most` offers, the least change first; none is an answer too.

    A request that is accepted as it stands has no use for offers; asking anyway is harmless.
    """
    found: list[Offer] = []
    for search in (_later_deadline, _earlier_start, _smaller, _one_option):
        found.extend(search(seeker))
    found.sort(key=lambda offer: (offer.share, offer.kind, offer.expression))
    return tuple(found[:most])


def _window_steps(seeker: Seeker) -> int:
    """Return the length of the asked window in steps, at least 1."""
    grid = seeker.context.grid
    start, end = (
        start_ms(seeker.expression, seeker.context),
        deadline_ms(seeker.expression, seeker.context),
    )
    first = seeker.context.submitted if start is None else grid.ceil(start)
    last = grid.horizon if end is None else grid.floor(end)
    return max(1, last - first)


def _later_deadline(seeker: Seeker) -> Iterator[Offer]:
    """The earliest deadline that works.

    Planned with all the time there is and as early as possible, the request ends at a step that
    is (nearly) the earliest; the agent itself may need a little more, so a few later ones follow.
    """
    from planner.agents.gree import EARLIEST, EARLIEST_COMPACT

    grid = seeker.context.grid
    asked = deadline_ms(seeker.expression, seeker.context)
    if asked is None or grid.floor(asked) >= grid.horizon:
        return
    open_ended = with_deadline(seeker.expression, grid.horizon_ms, seeker.context)
    ends = [seeker.trial(open_ended, agent) for agent in (EARLIEST_COMPACT, EARLIEST)]
    known = [end for end in ends if end is not None]
    if not known:
        return
    earliest = max(min(known), grid.floor(asked) + 1)
    for widening in _WIDENING:
        step = earliest + int((grid.horizon - earliest) * widening)
        variant = with_deadline(seeker.expression, grid.ms(step), seeker.context)
        if seeker.trial(variant) is not None:
            later = (grid.ms(step) - asked) / grid.step_ms / _window_steps(seeker)
            yield seeker.offer(variant, "deadline", seconds_of(asked), grid.seconds(step), later)
            return


def _earlier_start(seeker: Seeker) -> Iterator[Offer]:
    """The latest start that works, where the window leaves time before it."""
    grid = seeker.context.grid
    asked = start_ms(seeker.expression, seeker.context)
    if asked is None or grid.ceil(asked) <= seeker.context.submitted:
        return
    opened = with_start(seeker.expression, seeker.context.submitted_ms, seeker.context)
    begin = seeker.begin(opened)
    if begin is None or begin >= grid.ceil(asked):
        return
    variant = with_start(seeker.expression, grid.ms(begin), seeker.context)
    step = begin
    if seeker.trial(variant) is None:
        variant, step = opened, seeker.context.submitted
    earlier = (asked - grid.ms(step)) / grid.step_ms / _window_steps(seeker)
    yield seeker.offer(variant, "start", seconds_of(asked), grid.seconds(step), earlier)


def _smaller(seeker: Seeker) -> Iterator[Offer]:
    """The largest part of the request that fits by the asked deadline, by bisection."""
    fits, fails = 0, SIZE_PARTS
    kept: Expression | None = None
    while fails - fits > 1:
        middle = (fits + fails) // 2
        variant = resized(seeker.expression, middle, SIZE_PARTS)
        if variant is not None and seeker.trial(variant) is not None:
            fits, kept = middle, variant
        else:
            fails = middle
    if kept is not None and kept != seeker.expression:
        part = fits / SIZE_PARTS
        yield seeker.offer(kept, "size", 1.0, part, 1.0 - part)


def _one_option(seeker: Seeker) -> Iterator[Offer]:
    """One option of the outermost `any` alone: agents try options only so often."""
    for index, worth, variant in single_options(seeker.expression)[:_MOST_OPTIONS]:
        if seeker.trial(variant) is not None:
            yield seeker.offer(variant, "option", None, float(index), 1.0 - worth)
            return

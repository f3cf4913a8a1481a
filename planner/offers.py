"""Counter-offers: small changes with which a refused request would be accepted.

Four kinds of change are tried: a later deadline, an earlier start, a smaller size (work of
malleable atoms, height of gangs), and only one option of an `any`; and if a policy limits windows,
the window is moved or shortened until it is allowed. Every offer has been placed by the same agent
on the same view before it is made, so that it is accepted if it is submitted unchanged in the same
version of the Plan. They are sorted by the size of the change, the smallest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.agent import Agent, Limits
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import OUTAGE_KINDS
from planner.cluster.policy import RequestLimits
from planner.explain import maintenance_words
from planner.placement import PlacementResult, shifts_of
from planner.plan.batch.admission import window_refusal
from planner.plan.draft import Draft
from planner.plan.placing import try_on_machines
from planner.plan.records.changes import UncompiledRequest
from planner.request import Request, header_of
from rdl.compile.civil_time import ORIGIN, window_ms
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.durations import rfc3339_text
from rdl.errors import RdlError
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Instant,
    Offset,
    Order,
    TimeOfDay,
    Together,
    Void,
    Window,
    atoms_of,
)
from rdl.local_time import time_words, zone_named
from rdl.meaning.shift import with_instants
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.time_grid import TimeGrid, duration_text, seconds_of
from rdl.work_graph import WorkGraph

#: Offered sizes are multiples of the requested size divided by this.
SIZE_PARTS: Final = 64

#: Deadlines to try after the earliest end, as shares of the time left to the horizon.
_WIDENING: Final = (0.0, 0.05, 0.25, 1.0)

#: A time beyond any limit.
_ANY_TIME_MS: Final = 2**62

#: Kinds of offers whose values are times.
TIMED_OFFERS: Final = frozenset({"deadline", "start"})

#: Time to accept an offer whose work has to start immediately.
_TAKING_MS: Final = 60_000

#: Most options of an `any` to try.
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
        Values before and after: seconds from the origin, a share of the work, or the index of the
        option.
    share
        Size of the change, 0 for none: time relative to the requested window, work relative to the
        requested work, or worth of the option relative to the best.
    at_version
        Version of the Plan for which it is valid.
    grid, zone
        The grid of its times, and the zone that the request names.
    option
        Name of the offered option in the request, for this kind.
    counted
        Whether the requested time counts from the submission: it changes with each submission, so
        the sentence does not compare with it.
    maintenance
        Maintenance that ends before a later deadline, or starts after an earlier start.
    """

    expression: str
    kind: str
    asked: float | None
    offered: float
    share: float
    at_version: int
    grid: TimeGrid
    zone: str | None = None
    option: str | None = None
    counted: bool = False
    maintenance: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the entry of files.md: `{expression, change, sentence, at_version}`."""
        change: dict[str, object] = {
            "kind": self.kind,
            "asked": self.asked,
            "offered": self.offered,
            "share": round(self.share, 6),
        }
        if self.kind in TIMED_OFFERS and self.grid.origin is not None:
            for name, seconds in (("asked_at", self.asked), ("offered_at", self.offered)):
                ms = None if seconds is None else round(seconds * 1000)
                change[name] = None if ms is None else rfc3339_text(self.grid.instant_at(ms))
        return {
            "expression": self.expression,
            "change": change,
            "sentence": offer_sentence(self),
            "at_version": self.at_version,
        }


def offer_sentence(offer: Offer) -> str:
    """Return the change as a sentence."""
    if offer.kind == "option":
        which = offer.option or f"option {round(offer.offered) + 1} of what may be chosen"
        return f"it would fit with {which} alone"
    if offer.kind == "size":
        return f"it would fit with {100 * offer.offered:.0f} % of the work"
    bound = {"deadline": "the deadline", "start": "the start"}[offer.kind]
    offered_ms = round(offer.offered * 1000)
    said = f"it would fit if {bound} were {time_words(offered_ms, offer.grid, offer.zone)}"
    if offer.asked is not None and not offer.counted:
        away = offered_ms - round(offer.asked * 1000)
        said += f", {duration_text(abs(away))} {'later' if away > 0 else 'earlier'}"
    if offer.maintenance:
        said += f", {'after' if offer.kind == 'deadline' else 'before'} {offer.maintenance}"
    return said


@dataclass(frozen=True, slots=True)
class Seeker:
    """A search for offers: the request, and the state and agent to try variants with.

    Attributes
    ----------
    request
        The refused request; it need not have compiled if only its window was too short.
    expression
        As submitted.
    context
        Context to compile variants.
    view, agent
        The state of the Plan and the agent that refused; the same agent will place an accepted
        offer.
    limits
        Policies on windows and lead times, which agents do not see.
    stop
        Called before each trial; once it returns True, nothing more is tried.
    draft
        Draft of the same state as the view, machines included; None if only totals are promised.
    """

    request: Request | UncompiledRequest
    expression: Expression
    context: CompileContext
    view: PlanSnapshot
    agent: Agent
    limits: tuple[RequestLimits, ...] = ()
    stop: Callable[[], bool] = lambda: False
    draft: Draft | None = None

    def trial(self, expression: Expression, agent: Agent | None = None) -> int | None:
        """Return the step at which a variant would end, or None if it is refused."""
        placed = self._place(expression, agent or self.agent)
        if placed is None:
            return None
        request, result = placed
        ends = [
            int(rows[-1, 1]) + int(shifts_of(request.graph, vertex)[-1])
            for vertex, rows in result.atoms()
        ]
        return max(ends, default=request.graph.submitted)

    def begin(self, expression: Expression) -> int | None:
        """Return the step at which a variant would start, or None if it is refused."""
        placed = self._place(expression, self.agent)
        if placed is None:
            return None
        request, result = placed
        starts = [int(rows[0, 0]) for _, rows in result.atoms()]
        return min(starts, default=request.graph.submitted)

    def _place(
        self, expression: Expression, agent: Agent
    ) -> tuple[Request, PlacementResult] | None:
        if self.stop():
            return None
        try:
            graph = compile_expression(expression, self.context)
        except RdlError:
            return None  # a variant that does not compile is no offer
        request = request_of(self.request, graph)
        if window_refusal(self.limits, request) is not None:
            return None
        result = agent.plan([request], self.view, Limits())[0]
        if result.placed and self.draft is not None:
            result = try_on_machines(self.draft, request, result, agent)
        return (request, result) if result.placed else None

    def offer(
        self,
        expression: Expression,
        kind: str,
        asked: float | None,
        offered: float,
        share: float,
        option: str | None = None,
    ) -> Offer:
        """Return the offer for an accepted variant, with its times as instants."""
        text = format_expression(dated(expression, self.context))
        zone = zone_named(self.expression)
        grid = self.context.grid
        counted = kind in TIMED_OFFERS and _is_counted(self.expression, kind)
        version = self.view.version
        between = self._maintenance(kind, round(offered * 1000)) if kind in TIMED_OFFERS else ""
        return Offer(
            text, kind, asked, offered, share, version, grid, zone, option, counted, between
        )

    def _maintenance(self, kind: str, offered_ms: int) -> str:
        """Return the maintenance of most machines between the old and the new bound."""
        asked = (deadline_ms if kind == "deadline" else start_ms)(self.expression, self.context)
        if asked is None or (kind == "deadline") != (offered_ms > asked):
            return ""
        low = max(start_ms(self.expression, self.context) or 0, self.context.submitted_ms)
        end = deadline_ms(self.expression, self.context)
        high = offered_ms if kind == "deadline" else end or self.context.grid.horizon_ms
        cluster, grid = self.view.ledger.book.cluster, self.context.grid
        near = [
            one
            for one in cluster.outages_between(low, high)
            if one.kind == OUTAGE_KINDS[0] and one.start_ms < high and one.end_ms > low
        ]
        if kind == "deadline":
            near = [one for one in near if one.end_ms < high]
        if not near:
            return ""
        most = max(near, key=lambda one: (len(one.indices), -one.start_ms))
        return maintenance_words(most, grid, zone_named(self.expression))


def _is_counted(expression: Expression, kind: str) -> bool:
    """Return whether a bound of the outermost window counts from the submission."""
    if not isinstance(expression, Window):
        return False
    bound = expression.end if kind == "deadline" else expression.start
    return isinstance(bound, AfterSubmission)


def request_of(asked: Request | UncompiledRequest, graph: WorkGraph) -> Request:
    """Return the request with another graph."""
    return Request(**header_of(asked), graph=graph)


def find_offers(seeker: Seeker, most: int = 3) -> tuple[Offer, ...]:
    """Return up to `most` offers, the least change first; there may be none.

    Offers are useless, but harmless, for a request that would be accepted unchanged.
    """
    found: list[Offer] = []
    for search in (_allowed_window, _later_deadline, _earlier_start, _smaller, _one_option):
        found.extend(search(seeker))
    found.sort(key=lambda offer: (offer.share, offer.kind, offer.expression))
    different = {offer.expression: offer for offer in reversed(found)}
    return tuple(offer for offer in found if different[offer.expression] is offer)[:most]


def _window_steps(seeker: Seeker) -> int:
    """Return the length of the requested window in steps, at least 1."""
    grid = seeker.context.grid
    start, end = (
        start_ms(seeker.expression, seeker.context),
        deadline_ms(seeker.expression, seeker.context),
    )
    first = seeker.context.submitted if start is None else grid.ceil(start)
    last = grid.horizon if end is None else grid.floor(end)
    return max(1, last - first)


def _allowed_window(seeker: Seeker) -> Iterator[Offer]:
    """Offer the nearest start, and the nearest deadline, that the policies on windows allow."""
    start = start_ms(seeker.expression, seeker.context)
    end = deadline_ms(seeker.expression, seeker.context)
    if not seeker.limits or start is None or end is None:
        return
    grid, submitted = seeker.context.grid, seeker.context.submitted_ms
    begin, stop = max(start, submitted), min(end, grid.horizon_ms)
    room = _Room.of(seeker.limits, submitted)
    moved = max(room.earliest, min(begin, room.latest), stop - room.longest)
    moved = grid.ms(grid.ceil(moved))
    if moved not in (start, begin) and moved < stop:
        variant = _with_start(seeker.expression, moved, seeker.context)
        if seeker.trial(variant) is not None:
            share = abs(moved - begin) / grid.step_ms / _window_steps(seeker)
            yield seeker.offer(variant, "start", seconds_of(start), seconds_of(moved), share)
    cut = grid.ms(grid.ceil(begin) + grid.floor(room.longest))
    if cut < stop:
        variant = with_deadline(seeker.expression, cut, seeker.context)
        if seeker.trial(variant) is not None:
            share = (stop - cut) / grid.step_ms / _window_steps(seeker)
            yield seeker.offer(variant, "deadline", seconds_of(end), seconds_of(cut), share)


@dataclass(frozen=True, slots=True)
class _Room:
    """Limits of policies on windows: when a window may start, and its largest length, in ms."""

    earliest: int
    latest: int
    longest: int

    @classmethod
    def of(cls, limits: Sequence[RequestLimits], submitted_ms: int) -> _Room:
        """Combine policies; a bound that none has is practically infinite."""
        least = [one.min_lead_ms for one in limits if one.min_lead_ms is not None]
        most = [one.max_lead_ms for one in limits if one.max_lead_ms is not None]
        longest = [one.max_window_ms for one in limits if one.max_window_ms is not None]
        latest = submitted_ms + min(most, default=_ANY_TIME_MS)
        return cls(submitted_ms + max(least, default=0), latest, min(longest, default=_ANY_TIME_MS))


def _later_deadline(seeker: Seeker) -> Iterator[Offer]:
    """Offer the earliest possible deadline.

    Placed as early as possible with time up to the horizon, the request ends at (nearly) the
    earliest step; the agent itself may need a little more, so a few later deadlines follow.
    """
    from planner.agents.greedy.agent import EARLIEST, EARLIEST_COMPACT

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
    if _begins_at_once(seeker, grid.ms(earliest)):
        earliest = min(earliest + grid.ceil(_TAKING_MS), grid.horizon)
    for widening in _WIDENING:
        step = earliest + int((grid.horizon - earliest) * widening)
        variant = with_deadline(seeker.expression, grid.ms(step), seeker.context)
        if seeker.trial(variant) is not None:
            later = (grid.ms(step) - asked) / grid.step_ms / _window_steps(seeker)
            yield seeker.offer(variant, "deadline", seconds_of(asked), grid.seconds(step), later)
            return


def _begins_at_once(seeker: Seeker, deadline: int) -> bool:
    """Return whether a request must start at its submission to end by a deadline in ms.

    The deadline of its offer is a date, and the offer is submitted a little later.
    """
    window = seeker.expression
    if seeker.context.grid.origin is None or not isinstance(window, Window):
        return False
    if not isinstance(window.start, AfterSubmission):
        return False
    begin = seeker.begin(with_deadline(window, deadline, seeker.context))
    return begin == seeker.context.submitted


def _earlier_start(seeker: Seeker) -> Iterator[Offer]:
    """Offer the latest possible start before that of the window, if there is time before it."""
    grid = seeker.context.grid
    asked = start_ms(seeker.expression, seeker.context)
    if asked is None or grid.ceil(asked) <= seeker.context.submitted:
        return
    first_ms = grid.ms(seeker.context.submitted)
    opened = _with_start(seeker.expression, first_ms, seeker.context)
    begin = seeker.begin(opened)
    if begin is None or begin >= grid.ceil(asked):
        return
    variant = _with_start(seeker.expression, grid.ms(begin), seeker.context)
    step = begin
    if seeker.trial(variant) is None:
        variant, step = opened, seeker.context.submitted
    earlier = (asked - grid.ms(step)) / grid.step_ms / _window_steps(seeker)
    yield seeker.offer(variant, "start", seconds_of(asked), grid.seconds(step), earlier)


def _smaller(seeker: Seeker) -> Iterator[Offer]:
    """Offer the largest part of the request that fits by its deadline, by bisection."""
    fits, fails = 0, SIZE_PARTS
    kept: Expression | None = None
    while fails - fits > 1:
        middle = (fits + fails) // 2
        variant = resize(seeker.expression, middle, SIZE_PARTS)
        if variant is not None and seeker.trial(variant) is not None:
            fits, kept = middle, variant
        else:
            fails = middle
    if kept is not None and kept != seeker.expression:
        part = _part_left(kept, seeker.expression, seeker.view.nominal)
        yield seeker.offer(kept, "size", 1.0, part, 1.0 - part)


def _one_option(seeker: Seeker) -> Iterator[Offer]:
    """Offer single options of the outermost `any`: agents do not try all combinations."""
    for index, worth, variant in _single_options(seeker.expression)[:_MOST_OPTIONS]:
        if seeker.trial(variant) is not None:
            name = _option_name(seeker.expression, index)
            yield seeker.offer(variant, "option", None, float(index), 1.0 - worth, name)
            return


def _shift_instant(instant: Instant, ms: int, context: CompileContext) -> Instant:
    """Return `ms` from the origin: a date if there is a calendar and the request has no offset.

    It means the same time whenever it is submitted, so no offer counts from its submission.
    """
    if context.grid.origin is None or isinstance(instant, Offset):
        return Offset(ms)
    return Absolute(context.grid.instant_at(ms))


def dated(expression: Expression, context: CompileContext) -> Expression:
    """Return the request with times that count from the submission replaced by instants.

    So an offer means the same whenever it is submitted. Bounds of windows are rounded to the grid,
    inside the requested ones, as the compiler rounds them: in the same step they come out the same.
    A start at the submission stays, since it is no bound.
    """
    grid = context.grid

    def start_of(instant: Instant) -> Instant:
        if not isinstance(instant, AfterSubmission) or instant.ms <= 0:
            return instant
        ms = grid.ms(grid.ceil(context.submitted_ms + instant.ms))
        return _shift_instant(instant, ms, context)

    def end_of(instant: Instant) -> Instant:
        if not isinstance(instant, AfterSubmission):
            return instant
        ms = grid.ms(grid.floor(context.submitted_ms + instant.ms))
        return _shift_instant(instant, ms, context)

    return with_instants(expression, start_of, end_of)


def deadline_ms(expression: Expression, context: CompileContext) -> int | None:
    """Return the end of the outermost window in ms from the origin, or None without one."""
    return _bounds(expression, context)[1]


def start_ms(expression: Expression, context: CompileContext) -> int | None:
    """Return the start of the outermost window in ms from the origin, or None without one."""
    return _bounds(expression, context)[0]


def _bounds(expression: Expression, context: CompileContext) -> tuple[int | None, int | None]:
    if not isinstance(expression, Window):
        return None, None
    return window_ms(expression, ORIGIN, context.grid, context.submitted_ms)


def with_deadline(expression: Expression, ms: int, context: CompileContext) -> Expression:
    """Return the request with another end of its outermost window."""
    assert isinstance(expression, Window)
    return replace(expression, end=_shift_instant(expression.end, ms, context))


def _with_start(expression: Expression, ms: int, context: CompileContext) -> Expression:
    """Return the request with another start of its outermost window, and the same end."""
    assert isinstance(expression, Window)
    assert expression.start is not None
    start = _shift_instant(expression.start, ms, context)
    if not isinstance(expression.end, TimeOfDay):
        return replace(expression, start=start)
    # A time of day means its next occurrence after the start, which the new start may change.
    last = deadline_ms(expression, context)
    assert last is not None
    return replace(expression, start=start, end=_shift_instant(expression.end, last, context))


def resize(expression: Expression, part: int, parts: int) -> Expression | None:
    """Return the request with `part` of `parts` of each atom, or None if an atom vanishes.

    A malleable atom does less work at the same heights; a gang runs equally long with fewer
    bundles, in whole multiples.
    """
    match expression:
        case Atom():
            return _resized_atom(expression, part, parts)
        case Void():
            return expression
        case Window() | Every():
            of = resize(expression.of, part, parts)
            return None if of is None else replace(expression, of=of)
        case AnyOf():
            options = _resized_all(expression.options, part, parts)
            return None if options is None else replace(expression, options=options)
        case AllOf() | Order() | Graph() | Together():
            children = _resized_all(expression.children, part, parts)
            return None if children is None else replace(expression, children=children)


def _resized_all(
    expressions: tuple[Expression, ...], part: int, parts: int
) -> tuple[Expression, ...] | None:
    sized = tuple(resize(expression, part, parts) for expression in expressions)
    return None if None in sized else tuple(one for one in sized if one is not None)


def _resized_atom(atom: Atom, part: int, parts: int) -> Atom | None:
    if atom.minimum == atom.maximum:
        height = atom.maximum * part // parts // atom.multiple * atom.multiple
        if height == 0:
            return None
        work = atom.work_ms * height // atom.maximum
        return replace(atom, minimum=height, maximum=height, work_ms=work)
    work = atom.work_ms * part // parts
    if atom.work_ms % atom.lease_ms == 0:
        # Keep whole leases: only then does the grid round lease and work consistently.
        work = work // atom.lease_ms * atom.lease_ms
    return None if work == 0 else replace(atom, work_ms=work)


def _part_left(smaller: Expression, asked: Expression, nominal: Resources) -> float:
    """Return the share of the work of `asked` in `smaller`, which `resize` returned for it.

    Work is weighted by its dominant share of `nominal`, each atom counted once. Gangs lose whole
    bundles and leases stay whole, so the share is mostly less than the part that was tried.
    """
    kept = whole = 0.0
    for less, atom in zip(atoms_of(smaller), atoms_of(asked), strict=True):
        if all(name in nominal for name, _ in atom.bundle.items()):
            share = atom.bundle.dominant_share(nominal)
            kept += less.work_ms * share
            whole += atom.work_ms * share
    return kept / whole if whole else 0.0


def _single_options(expression: Expression) -> list[tuple[int, float, Expression]]:
    """Return (index, worth relative to the best, request) for each option of the outermost `any`.

    Windows and recurrences around it stay; a nested `any` is left to the agent.
    """
    match expression:
        case AnyOf(options=options, prefer=prefer):
            worths = prefer or (1.0,) * len(options)
            best = max(worths)
            return [
                (index, worth / best, option)
                for index, (option, worth) in enumerate(zip(options, worths, strict=True))
            ]
        case Window() | Every():
            return [
                (index, worth, replace(expression, of=option))
                for index, worth, option in _single_options(expression.of)
            ]
        case _:
            return []


def _option_name(expression: Expression, index: int) -> str | None:
    """Return the name of an option of the outermost `any`, or None."""
    match expression:
        case AnyOf(options=options):
            return options[index].name
        case Window() | Every():
            return _option_name(expression.of, index)
        case _:
            return None

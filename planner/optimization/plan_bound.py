"""A bound alongside a Plan that stands: how much more any plan of the same requests could hold.

The bound is asked about the same requests as an optimisation: those that hold something, and those
that were refused and could still come in. What has begun stays, the rest may be placed again. The
Plan is held only while what is new in it is read; compiling and pricing come after.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from planner.adaptation.repair import present_holders
from planner.agent import BoundError, is_proven
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.optimization.candidates import refused_request
from planner.plan.batch.admission import rule_refusal
from planner.plan.plan import Plan
from planner.renegotiation.remainder import remainder_of
from planner.replanning.commitment import Commitment, LazyRequest, Move, commitment_of, move_of
from planner.replanning.draft_plan import anchor_of
from planner.request import Request
from planner.reservations.reservation import Holding, Refusal
from planner.reservations.rows import split
from planner.reservations.state import State
from planner.value import relative_gap, size_of, value_asked
from rdl.compile.compiler import compile_source
from rdl.errors import RdlError
from rdl.resources import Resources
from rdl.work_graph import START

#: Most requests, held or refused, of which a bound is reported.
MOST_REQUESTS: Final = 2_000

#: Most reservations that are read again while the Plan is held.
_MOST_AT_ONCE: Final = 200

#: What proves a bound where there are more requests than `MOST_REQUESTS`: nothing.
UNPROVEN: Final = "none"


@dataclass(frozen=True, slots=True)
class PlanBound:
    """What a Plan holds, and the most that any plan of the same requests can hold.

    Attributes
    ----------
    version
        Of the Plan.
    value
        Of the reservations that hold something: weight x size x preferences of the options taken.
        Degraded ones count as holding nothing.
    total
        Value of all that is held, and of all that was refused and could still come in.
    bound
        No plan holds more; None if there are more requests than `MOST_REQUESTS`, and of these
        value and total are not told either.
    holders, candidates
        How many reservations hold something, and how many requests were refused and could still
        come in.
    proof
        ``all`` (what is asked), ``load`` (amounts), ``columns`` (prices) or ``none``.
    """

    version: int
    value: float | None
    total: float | None
    bound: float | None
    holders: int
    candidates: int
    proof: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the gap and how much better a plan could be at most."""
        gap = better = None
        if self.bound is not None and self.value is not None:
            gap = round(relative_gap(self.value, self.bound), 6)
            better = round(self.bound / self.value - 1, 6) if self.value > 0 else None
        return {
            "version": self.version,
            "value": _rounded(self.value),
            "asked": _rounded(self.total),
            "bound": _rounded(self.bound),
            "gap": gap,
            "better": better,
            "held": self.holders,
            "waiting": self.candidates,
            "proof": self.proof,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


class _Rest(NamedTuple):
    """What of a commitment that has begun stays at a step, and what may be placed again."""

    step: int
    anchor: Holding
    request: Request | None


@dataclass(slots=True)
class _HeldRequest:
    """A reservation that holds something, at one revision and state, and its rest at a step."""

    revision: int
    state: State
    commitment: Commitment
    rest: _Rest | None = None

    def rest_on(self, plan: Plan) -> _Rest:
        """Return what stays and what may be placed again at the step of a Plan."""
        if self.rest is None or self.rest.step != plan.now:
            begun = replace(self.commitment, started=True)
            move = move_of(plan, begun)
            if isinstance(move, Move):
                self.rest = _Rest(plan.now, move.holding(), move.remainder.request)
            else:
                self.rest = _Rest(plan.now, anchor_of(plan, begun), None)
        return self.rest


@dataclass(slots=True)
class _RefusedRequest:
    """A request that was refused (None: no plan can hold it), and its rest at a step."""

    request: Request | None
    step: int = -1
    rest: Request | None = None

    def rest_on(self, plan: Plan) -> Request | None:
        """Return the request in what is left of its window at the step of a Plan, if it fits."""
        request = self.request
        if request is None or not len(request.graph.vertices):
            return None
        if int(request.graph.vertices[-1, START]) >= plan.now:
            return request
        if self.step != plan.now:
            self.step, self.rest = plan.now, None
            context = plan.cluster.context(plan.grid, request.submitted_ms)
            with contextlib.suppress(RdlError):
                self.rest = remainder_of(request, {}, context, plan.now).request
        return self.rest


@dataclass(slots=True)
class RequestBook:
    """The requests of a Plan, each compiled once.

    Attributes
    ----------
    held
        Reservations that hold something, by ordinal, which a reservation keeps.
    refused
        By id and expression.
    unread
        How many new reservations the present reading has met.
    """

    held: dict[int, _HeldRequest] = field(default_factory=dict)
    refused: dict[tuple[str, str], _RefusedRequest] = field(default_factory=dict)
    unread: int = 0
    _cluster: object = None
    _grid: object = None

    def open_for(self, plan: Plan) -> None:
        """Forget everything where the cluster or the grid is another one."""
        if plan.cluster is not self._cluster or plan.grid != self._grid:
            self.held.clear()
            self.refused.clear()
            self._cluster, self._grid = plan.cluster, plan.grid


@dataclass(frozen=True, slots=True)
class PlanReading:
    """What a bound needs of a Plan, read while it is held.

    Attributes
    ----------
    version
        Of the Plan.
    empty
        A Plan of the same cluster at the same step that holds nothing.
    standing
        Reservations that hold something; they are compiled when first asked about.
    refusals
        Requests that were refused.
    is_short
        Whether more is held somewhere than machines and policies allow by now.
    too_many
        How many reservations hold something, where they are too many to read; else 0.
    """

    version: int
    empty: Plan
    standing: Sequence[_HeldRequest] = ()
    refusals: Sequence[Refusal] = ()
    is_short: bool = False
    too_many: int = 0


def read_plan(plan: Plan, book: RequestBook) -> PlanReading | None:
    """Return what a bound needs of a Plan; None: let go of the Plan, and ask again.

    The caller holds the Plan, and has `book` to itself. So that the Plan is held briefly, one call
    reads `_MOST_AT_ONCE` reservations that are new to the book.
    """
    numbers, refusals = present_holders(plan), plan.refusals
    empty = Plan(plan.cluster, plan.grid)
    if len(numbers) + len(refusals) > MOST_REQUESTS:
        return PlanReading(plan.version, empty, refusals=refusals, too_many=len(numbers))
    book.open_for(plan)
    empty.advance_to(plan.now)
    table = plan.table
    known: dict[int, _HeldRequest] = {}
    for number in numbers.tolist():
        ordinal, state = table.ordinal(number), table.state(number)
        revision = int(table.meta[number]["revision"])
        entry = book.held.get(ordinal)
        if entry is None or (entry.revision, entry.state) != (revision, state):
            entry = _HeldRequest(revision, state, _detached(plan, number))
            book.unread += 1
        known[ordinal] = entry
        if book.unread == _MOST_AT_ONCE:
            book.held |= known
            book.unread = 0
            return None
    book.held, book.unread = known, 0
    is_short = bool((plan.ledger.free < 0).any())
    return PlanReading(plan.version, empty, list(known.values()), refusals, is_short)


def _detached(plan: Plan, number: int) -> Commitment:
    """Return a commitment that can be compiled when the Plan is no longer held."""
    found = commitment_of(plan, number)
    if found.choices:  # its value needed the request: that is compiled already
        return found
    header, text = plan.table.header(number), plan.table.details.get(number).text
    cluster, grid = plan.cluster, plan.grid

    def compile_it() -> tuple[Request | None, str]:
        context = cluster.context(grid, header["submitted_ms"])
        try:
            return Request(**header, graph=compile_source(text, context)), ""
        except RdlError as error:
            return None, str(error)

    return replace(found, source=LazyRequest(compile_it))


def bound_of(reading: PlanReading, book: RequestBook) -> PlanBound:
    """Return the bound of what was read of a Plan."""
    if reading.too_many:
        counts = reading.too_many, len(reading.refusals)
        return PlanBound(reading.version, None, None, None, *counts, UNPROVEN)
    reference = reading.empty.cluster.reference
    waiting = _waiting(reading, book)
    question = _BoundQuestion(reading.empty, list(waiting))
    for entry in reading.standing:
        question.add(entry)
    commitments = [one.commitment for one in reading.standing]
    value = sum(one.value for one in commitments if one.state is not State.DEGRADED)
    asked = question.aside + sum(value_asked(one, reference) for one in question.asked)
    bound, proof = (max(asked, value), "all") if reading.is_short else question.bound(value, asked)
    counts = len(commitments), len(waiting)
    return PlanBound(reading.version, value, max(asked, value), bound, *counts, proof)


def _waiting(reading: PlanReading, book: RequestBook) -> list[Request]:
    """Return what was refused and could still come in."""
    plan = reading.empty
    known: dict[tuple[str, str], _RefusedRequest] = {}
    for one in reading.refusals:
        key = one.id, one.expression
        known[key] = book.refused.get(key) or _RefusedRequest(refused_request(plan, one))
    book.refused = known
    found = (one.rest_on(plan) for one in known.values())
    return [one for one in found if one is not None and rule_refusal(plan, one) is None]


@dataclass(slots=True)
class _BoundQuestion:
    """What the bound is asked about.

    Attributes
    ----------
    plan
        Holds what stays: of those that have begun, their past and the leases in force.
    asked
        What may be placed again.
    aside
        Most value of those that are not asked about; their capacity counts as free.
    """

    plan: Plan
    asked: list[Request]
    aside: float = 0.0

    def add(self, entry: _HeldRequest) -> None:
        """Ask about what of a commitment may be placed again."""
        one = entry.commitment
        if one.request is None or one.state is State.DEGRADED:
            self.aside += self._most(one)
            return
        if one.before.begin >= self.plan.now:  # it has not begun
            self.asked.append(one.request)
            return
        rest = entry.rest_on(self.plan)
        self._hold(rest.anchor, one)
        size = 0.0 if rest.request is None else size_of(rest.request.graph, self._reference)
        given_back = any(atom.released is not None for atom in one.before.atoms)
        if rest.request is None or not size or given_back:
            self.aside += self._most(one)
        else:
            self.asked.append(replace(rest.request, weight=self._most(one) / size))

    @property
    def _reference(self) -> Resources:
        return self.plan.cluster.reference

    def _hold(self, stays: Holding, one: Commitment) -> None:
        """Take what of a commitment stays from what is free."""
        ledger, now = self.plan.ledger, self.plan.now
        takings = takings_of(stays, ledger, one.tenant, one.queue)
        ledger.take([(each.demand, split(each.rows, now)[1], 1) for each in takings])

    def _most(self, one: Commitment) -> float:
        """Return the most that a commitment can be worth."""
        if one.request is None:
            return one.value
        return max(one.value, value_asked(one.request, self._reference))

    def bound(self, value: float, asked: float) -> tuple[float, str]:
        """Return the bound and what proves it, where so much is held and asked."""
        if not self.asked or asked <= value:
            return max(asked, value), "all"
        from planner.agents.quick_bound import quick_bound  # compiled loops

        view = PlanSnapshot(self.plan.ledger, self.plan.version)
        found = quick_bound(self.asked, view, value - self.aside)
        bound = self.aside + found.value
        if bound < value and not is_proven(bound, value, asked):
            raise BoundError(f"the bound {bound} lies below the value {value} of the Plan")
        return max(bound, value), found.proof

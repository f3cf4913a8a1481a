"""A bound for the current Plan: how much more value any plan of its requests could have.

The bound covers the same requests as an optimisation: reservations with an allocation, and refused
requests that could still be admitted. Started parts stay, the rest may be placed again. The Plan is
locked only while its new entries are read; compiling and pricing come after.
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
from planner.remainder import remainder_of
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

#: Maximum number of requests, held or refused, for which a bound is reported.
MOST_REQUESTS: Final = 2_000

#: Maximum number of reservations read while the Plan is locked.
_MOST_AT_ONCE: Final = 200

#: The proof of a bound if there are more requests than `MOST_REQUESTS`.
UNPROVEN: Final = "none"


@dataclass(frozen=True, slots=True)
class PlanBound:
    """The value of a Plan, and a bound on the value of any plan of the same requests.

    Attributes
    ----------
    version
        Of the Plan.
    value
        Value of the reservations with an allocation: weight x size x preferences of the chosen
        options. Degraded ones count 0.
    total
        Value of all reservations with an allocation and all refused requests that could still be
        admitted.
    bound
        Upper bound on the value of any plan; None, like `value` and `total`, if there are more
        requests than `MOST_REQUESTS`.
    holders, candidates
        Numbers of reservations with an allocation, and of refused requests that could still be
        admitted.
    proof
        ``all`` (every request is placed), ``load`` (amounts), ``columns`` (prices) or ``none``.
    """

    version: int
    value: float | None
    total: float | None
    bound: float | None
    holders: int
    candidates: int
    proof: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, with the gap and the maximum possible improvement."""
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
    """The fixed and the movable part of a started commitment at a step."""

    step: int
    anchor: Holding
    request: Request | None


@dataclass(slots=True)
class _HeldRequest:
    """A reservation with an allocation, at one revision and state, and its rest at a step."""

    revision: int
    state: State
    commitment: Commitment
    rest: _Rest | None = None

    def rest_on(self, plan: Plan) -> _Rest:
        """Return the fixed and the movable part at the current step of a Plan."""
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
    """A refused request (None: no plan can place it), and its rest at a step."""

    request: Request | None
    step: int = -1
    rest: Request | None = None

    def rest_on(self, plan: Plan) -> Request | None:
        """Return the request in the rest of its window at the Plan's current step, if it fits."""
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
        Reservations with an allocation, by ordinal, which never changes.
    refused
        By id and expression.
    unread
        Number of new reservations in the current reading.
    """

    held: dict[int, _HeldRequest] = field(default_factory=dict)
    refused: dict[tuple[str, str], _RefusedRequest] = field(default_factory=dict)
    unread: int = 0
    _cluster: object = None
    _grid: object = None

    def open_for(self, plan: Plan) -> None:
        """Clear the book if the cluster or the grid has changed."""
        if plan.cluster is not self._cluster or plan.grid != self._grid:
            self.held.clear()
            self.refused.clear()
            self._cluster, self._grid = plan.cluster, plan.grid


@dataclass(frozen=True, slots=True)
class PlanReading:
    """The input of a bound, read from a Plan while it is locked.

    Attributes
    ----------
    version
        Of the Plan.
    empty
        An empty Plan of the same cluster at the same step.
    standing
        Reservations with an allocation; compiled on first use.
    refusals
        Refused requests.
    is_short
        Whether allocations exceed the current machines or policies anywhere.
    too_many
        Number of reservations with an allocation if they are too many to read; else 0.
    """

    version: int
    empty: Plan
    standing: Sequence[_HeldRequest] = ()
    refusals: Sequence[Refusal] = ()
    is_short: bool = False
    too_many: int = 0


def read_plan(plan: Plan, book: RequestBook) -> PlanReading | None:
    """Read a bound's input from a Plan; None: unlock the Plan, then call again.

    The caller has locked the Plan and has exclusive use of `book`. To keep the lock short, one call
    reads at most `_MOST_AT_ONCE` reservations that are new to the book.
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
    """Return a commitment that can be compiled after the Plan is unlocked."""
    found = commitment_of(plan, number)
    if found.choices:  # its value needed the request, so it is already compiled
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
    """Return the bound for the data read from a Plan."""
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
    """Return the refused requests that could still be admitted."""
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
    """The input of the bound's computation.

    Attributes
    ----------
    plan
        A Plan with the fixed parts: past allocations and current leases of started commitments.
    asked
        Requests that may be placed again.
    aside
        Maximum value of commitments that are left out; their capacity counts as free.
    """

    plan: Plan
    asked: list[Request]
    aside: float = 0.0

    def add(self, entry: _HeldRequest) -> None:
        """Add the movable part of a commitment."""
        one = entry.commitment
        if one.request is None or one.state is State.DEGRADED:
            self.aside += self._most(one)
            return
        if one.before.begin >= self.plan.now:  # it has not started
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
        """Subtract the fixed part of a commitment from the free capacity."""
        ledger, now = self.plan.ledger, self.plan.now
        takings = takings_of(stays, ledger, one.tenant, one.queue)
        ledger.take([(each.demand, split(each.rows, now)[1], 1) for each in takings])

    def _most(self, one: Commitment) -> float:
        """Return the maximum value of a commitment."""
        if one.request is None:
            return one.value
        return max(one.value, value_asked(one.request, self._reference))

    def bound(self, value: float, asked: float) -> tuple[float, str]:
        """Return the bound and its proof, given the current and the requested value."""
        if not self.asked or asked <= value:
            return max(asked, value), "all"
        from planner.agents.quick_bound import quick_bound  # compiled loops

        view = PlanSnapshot(self.plan.ledger, self.plan.version)
        found = quick_bound(self.asked, view, value - self.aside)
        bound = self.aside + found.value
        if bound < value and not is_proven(bound, value, asked):
            raise BoundError(f"the bound {bound} lies below the value {value} of the Plan")
        return max(bound, value), found.proof

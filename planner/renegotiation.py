"""The started part is fixed and the rest is placed again; together they are the new allocation.

The past allocation is fixed, and bundles that started in it are kept until their leases end. That
part is fixed; the rest of the request becomes a separate request, the *remainder*, which any agent
places. Past and remainder together are held against the oracle before anyone sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.agent import Agent, Limits
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.placement import Code, PlacementResult
from planner.remainder import (
    FixedAtom,
    Numbers,
    PastChangedError,
    Remainder,
    remainder_of,
)
from planner.request import Request
from planner.reservations.holding import details_of, holding_of, rule_of_member
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, split
from planner.value import options_of
from planner.view import PlanView
from rdl.compound import Member, parts_of, rows_of_vertex
from rdl.errors import RdlError
from rdl.oracle.satisfaction import Violation, check
from rdl.text.parser import parse
from rdl.work_graph import (
    ANY,
    ATOM,
    KIND,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    PARENT,
    WORK,
    WorkGraph,
)

if TYPE_CHECKING:
    from planner.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Continuation:
    """A request with some of it fixed and the rest to be placed.

    Attributes
    ----------
    request
        The whole request.
    fixed
        The fixed part, by atom path.
    remainder
        The rest as a request; None inside when nothing is left.
    max_period_ms
        The cluster's, for the oracle.
    """

    request: Request
    fixed: Mapping[str, FixedAtom]
    remainder: Remainder
    max_period_ms: int

    def holding(self) -> Holding:
        """Return the fixed part as a holding."""
        atoms = tuple(one.held.part(path, one.rows) for path, one in self.fixed.items())
        begin = min((one.first for one in self.fixed.values()), default=0)
        return Holding(atoms, begin, max((one.end for one in self.fixed.values()), default=begin))

    def place(self, view: PlanView, agent: Agent, limits: Limits | None = None) -> PlacementResult:
        """Return the whole new allocation, held against the oracle, or the refusal.

        Parameters
        ----------
        view
            Holds what is fixed.
        """
        placed = PlacementResult()
        if self.remainder.request is not None:
            placed = agent.plan([self.remainder.request], view, limits or Limits())[0]
        return self.whole(placed)

    def whole(self, placed: PlacementResult) -> PlacementResult:
        """Return an allocation of the remainder as one of the whole request."""
        if not placed.placed:
            return placed
        whole = self._joined(placed)
        broken = _violation(self.request, whole, self.max_period_ms)
        if broken is None:
            return whole
        detail = f"what was held before now leaves no way to keep {broken.rule}: {broken.detail}"
        return PlacementResult(Code.PAST_CHANGED, detail)

    def fixed_result(self) -> PlacementResult:
        """Return the fixed part as a placement of the request."""
        return result_of_rows(
            self.request.graph, {path: one.rows for path, one in self.fixed.items()}
        )

    def _joined(self, placed: PlacementResult) -> PlacementResult:
        graph, rest = self.request.graph, self.remainder.request
        rows: dict[str, list[Rows]] = {path: [one.rows] for path, one in self.fixed.items()}
        for vertex, found in placed.atoms():
            assert rest is not None
            for path, member in parts_of(rest.graph, vertex):
                held = found * np.array([1, 1, member.count])
                rows.setdefault(self.remainder.old_path(path), []).append(held)
        joined = {path: add_up(np.concatenate(pieces)) for path, pieces in rows.items()}
        return result_of_rows(graph, joined)


def fixed_of(
    graph: WorkGraph, before: Holding, now: int, *, keeps_runs: bool
) -> dict[str, FixedAtom]:
    """Return the fixed part of every atom that has begun, by path.

    Parameters
    ----------
    keeps_runs
        Whether an occurrence that has begun keeps all of its rows; otherwise there is no way to
        ask for anything else.

    Raises
    ------
    PastChangedError
        If an atom that has begun is no longer there, or asks for another bundle or machines.
    """
    numbers = numbers_of(graph)
    members = {
        part.path: part.member
        for vertex in graph.atoms.tolist()
        for part in parts_of(graph, vertex)
    }
    found: dict[str, FixedAtom] = {}
    for atom in before.atoms:
        for path, rows in atom.occurrences():
            past, _ = split(rows, now)
            if not len(past):
                continue
            if "@" in path:
                if not keeps_runs:
                    raise PastChangedError("has begun and keeps its rows", atom.path)
                found[path] = FixedAtom.whole(atom, rows)
                continue
            if path not in numbers:
                raise PastChangedError("has begun and is no longer asked for", path)
            if not _asks_for(members[path], atom):
                raise PastChangedError("has begun with other bundles or machines", path)
            found[path] = FixedAtom.of(atom, past, numbers[path], now)
    return found


def _asks_for(member: Member, atom: AtomAllocation) -> bool:
    """Return whether an atom of a request asks for the bundle and the machines of one held."""
    same = member.bundle == atom.bundle and member.label == atom.label
    return same and (member.within is None or rule_of_member(member)[3:] == atom.rule[3:])


def numbers_of(graph: WorkGraph) -> dict[str, Numbers]:
    """Return g, h, multiple, lease and work of every atom of a request, by path."""
    found: dict[str, Numbers] = {}
    for vertex, row in enumerate(graph.vertices):
        if row[KIND] == ATOM:
            g, h, k, lease, work = row[[MIN_HEIGHT, MAX_HEIGHT, MULTIPLE, LEASE, WORK]].tolist()
            for path, member in parts_of(graph, vertex):
                n = member.count
                found[path] = (n * g, n * h, n * k, lease, n * work)
    return found


def held_result(request: Request, before: Holding, max_period_ms: int) -> PlacementResult | None:
    """Return the present or past holding as the answer to a request, if it satisfies it; else
    None."""
    graph = request.graph
    held = {atom.path.replace("@*", "@0"): atom for atom in before.atoms}
    members = {
        part.path: part.member
        for vertex in graph.atoms.tolist()
        for part in parts_of(graph, vertex)
    }
    if not held or not held.keys() <= members.keys():
        return None
    if not all(_asks_for(members[path], atom) for path, atom in held.items()):
        return None
    result = result_of_rows(graph, {path: atom.rows for path, atom in held.items()})
    return result if _violation(request, result, max_period_ms) is None else None


def result_of_rows(graph: WorkGraph, held: Mapping[str, Rows]) -> PlacementResult:
    """Return the rows of atoms by path as an agent would answer.

    A `together` whose members do not hold their bundles over the same steps is omitted: the
    answer then violates the request, which the oracle reports.
    """
    rows = {vertex: rows_of_vertex(graph, vertex, held) for vertex in graph.atoms.tolist()}
    kept = {vertex: one for vertex, one in rows.items() if one is not None}
    return result_of(graph, list(kept), list(kept.values()))


def result_of(graph: WorkGraph, vertices: Sequence[int], rows: Sequence[Rows]) -> PlacementResult:
    """Return rows of vertices as an agent would; the options taken follow from them."""
    choices: dict[int, int] = {}
    for vertex in vertices:
        below, above = vertex, int(graph.vertices[vertex, PARENT])
        while above >= 0:
            if graph.vertices[above, KIND] == ANY:
                choices[above] = options_of(graph, above).index(below)
            below, above = above, int(graph.vertices[above, PARENT])
    return PlacementResult(
        vertices=np.array(vertices, dtype=np.int64),
        first=np.cumsum([0, *(len(one) for one in rows)], dtype=np.int64),
        rows=np.concatenate(rows) if rows else np.empty((0, 3), dtype=np.int64),
        choices=tuple(sorted(choices.items())),
    )


def _violation(request: Request, result: PlacementResult, max_period_ms: int) -> Violation | None:
    """Hold an allocation against the oracle."""
    graph = request.graph
    holding = holding_of(request, result)
    allocation = {
        path: [(s, e, n) for s, e, n in rows.tolist()]
        for atom in holding.atoms
        for path, rows in atom.occurrences()
    }
    choices = dict(details_of(request, result).choices)
    return check(
        graph.expression,
        graph.grid,
        request.submitted_ms,
        allocation,
        choices,
        max_period_ms=max_period_ms,
    )


# If the present allocation already satisfies the new request, it is the answer: a reservation can
# always be renegotiated to itself.


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """An update ready to be placed; independent of the Plan.

    Attributes
    ----------
    request
        The whole new request.
    view
        Free capacity without the old allocation, and with the fixed part of the new one.
    rest
        The fixed part and the remainder of a started request; None if it has not started.
    answer
        The answer if no agent is needed, else None.
    has_begun
        Whether the reservation has a past allocation.
    """

    request: Request
    view: PlanSnapshot
    rest: Continuation | None = None
    answer: PlacementResult | None = None
    has_begun: bool = False

    def place(self, agent: Agent, limits: Limits) -> PlacementResult:
        """Return the whole new allocation, or the refusal; slow, and needs no lock."""
        if self.answer is not None:
            return self.answer
        if self.rest is not None:
            return self.rest.place(self.view, agent, limits)
        return agent.plan([self.request], self.view, limits)[0]

    def planner(self, agent: Agent) -> Agent | None:
        """Return an agent to place the request on other views; None if nothing may move."""
        if not self.has_begun:
            return agent
        if self.rest is None or self.rest.remainder.request is None:
            return None
        return RemainderAgent(self.rest, agent)


@dataclass(frozen=True, slots=True)
class RemainderAgent:
    """Places a started request on views without it: only its remainder may move."""

    rest: Continuation
    agent: Agent

    @property
    def name(self) -> str:
        """Name of the agent that places the remainder."""
        return self.agent.name

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Place the one request of the update."""
        beside = view.after([(self.rest.request, self.rest.fixed_result())], view.version)
        return [self.rest.place(beside, self.agent, limits) for _ in requests]


def renegotiation_of(plan: Plan, id: str, request: Request) -> PreparedUpdate:  # noqa: A002
    """Prepare an update of reservation `id` to `request` on the present Plan.

    Parameters
    ----------
    request
        Compiled on the Plan's grid, with the submission time of the reservation.

    Raises
    ------
    KeyError
        If there is no such reservation.
    """
    number = plan.table.number_of(id)
    if number is None:
        raise KeyError(id)
    before = plan.table.holding(number)
    view = plan.view_without([id])
    period = plan.cluster.max_period_ms
    has_begun = any(len(split(atom.all_rows(), plan.now)[0]) for atom in before.atoms)
    same = held_result(request, before, period)
    if same is not None:
        return PreparedUpdate(request, view, answer=same, has_begun=has_begun)
    if not has_begun:
        return PreparedUpdate(request, view)
    try:
        fixed = fixed_of(request.graph, before, plan.now, keeps_runs=False)
        context = plan.cluster.context(plan.grid, request.submitted_ms)
        remainder = remainder_of(request, fixed, context, plan.now)
    except PastChangedError as error:
        asked = parse(plan.table.read(number).expression)
        answer = PlacementResult(Code.PAST_CHANGED, error.detail(asked))
        return PreparedUpdate(request, view, answer=answer, has_begun=True)
    except RdlError as error:
        answer = PlacementResult(Code(error.code), f"what is left to do cannot be planned: {error}")
        return PreparedUpdate(request, view, answer=answer, has_begun=True)
    rest = Continuation(request, fixed, remainder, period)
    done = rest.whole(PlacementResult()) if remainder.request is None else None
    return PreparedUpdate(request, _with_fixed(plan, number, rest), rest, done, has_begun=True)


def _with_fixed(plan: Plan, number: int, rest: Continuation) -> PlanSnapshot:
    """Return a view without the old allocation and with the fixed part of the new one."""
    ledger = plan.ledger.copy()
    scope = plan.table.scope(number)
    old = takings_of(plan.table.holding(number), ledger, *scope, -1)
    new = takings_of(rest.holding(), ledger, *scope)
    ledger.take((piece.demand, piece.rows, piece.sign) for piece in (*old, *new))
    return PlanSnapshot(ledger, plan.version)

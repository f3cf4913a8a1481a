"""Renegotiate a reservation that has begun: its past stays and counts towards the new work.

What was held before now is history, and bundles taken then are kept until their leases end. That
part is fixed; what the new request asks beyond it becomes a request of its own, the *remainder*,
which any agent places on a view without the old version. Past and remainder together are the new
allocation, held against the oracle before anyone sees it. A request that the present allocation
already satisfies is answered with that allocation: a reservation can always be renegotiated to
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.agent import Agent, Limits
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import DAY_MS
from planner.placement import Code, PlacementResult
from planner.renegotiation.fixed import FixedAtom, PastChangedError
from planner.renegotiation.remainder import Remainder, remainder_of
from planner.request import Request
from planner.reservations.holding import details_of, holding_of
from planner.reservations.reservation import Holding, Rows
from planner.reservations.rows import add_up, split
from planner.value import options_of
from planner.view import PlanView
from rdl.errors import RdlError
from rdl.oracle.satisfaction import Violation, check
from rdl.text.parser import parse
from rdl.work_graph import (
    ANY,
    ATOM,
    BUNDLE,
    KIND,
    LABEL,
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
class PreparedUpdate:
    """An update ready to be placed; needs the Plan no more.

    Attributes
    ----------
    request
        The whole new request.
    view
        What is free without the old version, and with what is fixed of the new one.
    begun
        What is fixed, by atom path; empty when nothing has begun.
    remainder
        What is left to place of a request that has begun; None for one that has not.
    answer
        The answer where no agent is needed.
    max_period_ms
        The cluster's, for the oracle.
    has_begun
        Whether the reservation holds something before now.
    """

    request: Request
    view: PlanSnapshot
    begun: dict[str, FixedAtom]
    remainder: Remainder | None = None
    answer: PlacementResult | None = None
    max_period_ms: int = DAY_MS
    has_begun: bool = False

    def place(self, agent: Agent, limits: Limits) -> PlacementResult:
        """Return the whole new allocation, or the refusal; the long part, and it holds no lock."""
        if self.answer is not None:
            return self.answer
        return self.place_on(self.view, agent, limits)

    def place_on(self, view: PlanView, agent: Agent, limits: Limits) -> PlacementResult:
        """Return the whole new allocation on a view that holds what is fixed of it."""
        if self.remainder is None or self.remainder.request is None:
            return agent.plan([self.request], view, limits)[0]
        result = agent.plan([self.remainder.request], view, limits)[0]
        if not result.placed:
            return result
        whole = join_parts(self.request, self.begun, self.remainder, result)
        return verify(self.request, whole, self.max_period_ms)

    def planner(self, agent: Agent) -> Agent | None:
        """Return what places the request on other views with an agent; None if nothing may move."""
        if not self.has_begun:
            return agent
        if self.remainder is None or self.remainder.request is None:
            return None
        return RemainderAgent(self, agent)


@dataclass(frozen=True, slots=True)
class RemainderAgent:
    """Places a request that has begun on views without it: only its remainder may move."""

    update: PreparedUpdate
    agent: Agent

    @property
    def name(self) -> str:
        """That of the agent that places the remainder."""
        return self.agent.name

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Place the one request of the update."""
        begun = self.update.begun
        graph = self.update.request.graph
        vertices = [v for v in graph.atoms.tolist() if graph.paths[v] in begun]
        fixed = result_of(graph, vertices, [begun[graph.paths[v]].rows for v in vertices])
        beside = view.after([(self.update.request, fixed)], view.version)
        return [self.update.place_on(beside, self.agent, limits) for _ in requests]


def renegotiation_of(plan: Plan, id: str, request: Request) -> PreparedUpdate:  # noqa: A002
    """Return what an update of reservation `id` to `request` comes to on the present Plan.

    Parameters
    ----------
    request
        Compiled on the Plan's grid, with the reservation's own time of submission.

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
        return PreparedUpdate(request, view, {}, answer=same, has_begun=has_begun)
    if not has_begun:
        return PreparedUpdate(request, view, {})
    try:
        begun = begun_of(request.graph, before, plan.now)
        context = plan.cluster.context(plan.grid, request.submitted_ms)
        remainder = remainder_of(request, begun, context, plan.now)
    except PastChangedError as error:
        asked = parse(plan.table.read(number).expression)
        answer = PlacementResult(Code.PAST_CHANGED, error.detail(asked))
        return PreparedUpdate(request, view, {}, answer=answer, has_begun=True)
    except RdlError as error:
        answer = PlacementResult(Code(error.code), f"what is left to do cannot be planned: {error}")
        return PreparedUpdate(request, view, {}, answer=answer, has_begun=True)
    view = _with_fixed(plan, number, begun)
    if remainder.request is None:
        answer = verify(request, join_parts(request, begun, remainder, PlacementResult()), period)
        return PreparedUpdate(request, view, begun, answer=answer, has_begun=True)
    return PreparedUpdate(request, view, begun, remainder, None, period, has_begun=True)


def verify(request: Request, whole: PlacementResult, max_period_ms: int) -> PlacementResult:
    """Return an allocation that satisfies the request, or why the past does not let it."""
    broken = _violation(request, whole, max_period_ms)
    if broken is None:
        return whole
    detail = f"what was held before now leaves no way to keep {broken.rule}: {broken.detail}"
    return PlacementResult(Code.PAST_CHANGED, detail)


def _with_fixed(plan: Plan, number: int, begun: dict[str, FixedAtom]) -> PlanSnapshot:
    """Return a view without the old version and with what is fixed of the new one."""
    atoms = tuple(one.held.part(path, one.rows) for path, one in begun.items())
    ledger = plan.ledger.copy()
    tenant, queue = plan.table.scope(number)
    old = takings_of(plan.table.holding(number), ledger, tenant, queue)
    new = takings_of(Holding(atoms, plan.now, plan.now), ledger, tenant, queue)
    ledger.take((piece.demand, piece.rows, -1) for piece in old)
    ledger.take((piece.demand, piece.rows, 1) for piece in new)
    return PlanSnapshot(ledger, plan.version)


def begun_of(graph: WorkGraph, before: Holding, now: int) -> dict[str, FixedAtom]:
    """Return what is fixed of every atom that has begun, by path.

    Raises
    ------
    PastChangedError
        If an atom that has begun is no longer there, or asks for another bundle or machines.
    """
    vertices = {
        graph.paths[vertex]: vertex
        for vertex in range(len(graph.vertices))
        if graph.vertices[vertex, KIND] == ATOM
    }
    found: dict[str, FixedAtom] = {}
    for atom in before.atoms:
        past, _ = split(atom.all_rows(), now)
        if not len(past):
            continue
        if atom.shifts != (0,) or "@" in atom.path:
            raise PastChangedError("has begun and keeps its rows", atom.path)
        vertex = vertices.get(atom.path)
        if vertex is None:
            raise PastChangedError("has begun and is no longer asked for", atom.path)
        row = graph.vertices[vertex]
        label = graph.labels[row[LABEL]] if row[LABEL] >= 0 else None
        if graph.bundles[row[BUNDLE]] != atom.bundle or label != atom.label:
            raise PastChangedError("has begun with other bundles or machines", atom.path)
        g, h, multiple, lease, work = row[[MIN_HEIGHT, MAX_HEIGHT, MULTIPLE, LEASE, WORK]].tolist()
        numbers = (g, h, multiple, lease, work)
        found[atom.path] = FixedAtom.of(atom, past, numbers, now)
    return found


def held_result(request: Request, before: Holding, max_period_ms: int) -> PlacementResult | None:
    """Return what is or was held as the answer to a request, if it satisfies that; else None."""
    graph = request.graph
    held = {atom.path.replace("@*", "@0"): atom for atom in before.atoms}
    vertices = [v for v in graph.atoms.tolist() if graph.paths[v] in held]
    if len(vertices) != len(held) or not vertices:
        return None
    for vertex in vertices:
        row, atom = graph.vertices[vertex], held[graph.paths[vertex]]
        label = graph.labels[row[LABEL]] if row[LABEL] >= 0 else None
        if graph.bundles[row[BUNDLE]] != atom.bundle or label != atom.label:
            return None
    rows = [held[graph.paths[vertex]].rows for vertex in vertices]
    result = result_of(graph, vertices, rows)
    return result if _violation(request, result, max_period_ms) is None else None


def join_parts(
    request: Request, begun: dict[str, FixedAtom], remainder: Remainder, result: PlacementResult
) -> PlacementResult:
    """Return past and remainder as one allocation of the whole request."""
    graph = request.graph
    paths = () if remainder.request is None else remainder.request.graph.paths
    rows: dict[str, list[Rows]] = {path: [one.rows] for path, one in begun.items()}
    for vertex, placed in result.atoms():
        rows.setdefault(remainder.old_path(paths[vertex]), []).append(placed)
    numbered = {path: index for index, path in enumerate(graph.paths)}
    vertices = sorted(numbered[path] for path in rows)
    pieces = [add_up(np.concatenate(rows[graph.paths[vertex]])) for vertex in vertices]
    return result_of(graph, vertices, pieces)


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

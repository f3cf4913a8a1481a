"""warm_up: what the first client would wait for, done before there is one."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Protocol

from planner.agent import Limits
from planner.agents import agent_named
from planner.offers.search import OfferSearch, quick
from planner.plan.plan import Plan
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.errors import RdlError
from rdl.expressions import AfterSubmission, AnyOf, Atom, Expression, Window
from rdl.resources import CPU, Resources
from service.commits.commands import Admission, Ask, Command
from service.commits.pending import context_of
from service.config import ServiceConfig

logger = logging.getLogger("agenda.service")


class Rehearser(Protocol):
    """What a warm-up needs of a server process: its Plan to read, and a rehearsal of changes."""

    @property
    def config(self) -> ServiceConfig:
        """The settings of the process."""
        ...

    def reading(self) -> AbstractContextManager[Plan]:
        """Hold the Plan as it is while it is read."""
        ...

    def now_ms(self) -> int:
        """Return the present, in ms from the origin."""
        ...

    def new_id(self) -> str:
        """Return an id that nothing has."""
        ...

    def rehearse(self, command: Command) -> object:
        """Do all that a command asks for, but commit nothing."""
        ...


def warm_up(runtime: Rehearser) -> None:
    """Plan a little, and seek offers for too much: code is loaded, kernels are compiled.

    A search for offers has a quarter of a second; in a new process loading alone takes longer.
    """
    with runtime.reading() as plan:
        little, much = _asked_for(plan, 1), _asked_for(plan, None)
    ask = _ask(runtime, little)
    if ask is not None:
        runtime.rehearse(Admission((ask,)))
        _seek_offers(runtime, ask, _ask(runtime, much))


def _asked_for(plan: Plan, bundles: int | None) -> Expression:
    """Return a request for bundles, or more than there are, that every kind of offer is for."""
    resource, step_ms = next(iter(plan.cluster.resources), CPU), plan.grid.step_ms
    count = plan.cluster.nominal[resource] + 1 if bundles is None else bundles
    atom = Atom(Resources.of({resource: 1}), count, count, step_ms, count * step_ms)
    late = Window(AfterSubmission(step_ms), AfterSubmission(3 * step_ms), atom)
    later = Window(AfterSubmission(2 * step_ms), AfterSubmission(4 * step_ms), atom)
    return AnyOf((late, later))


def _ask(runtime: Rehearser, expression: Expression) -> Ask | None:
    """Return the request, or None on a Plan too short for it or without a queue for it."""
    with runtime.reading() as plan:
        submitted_ms, context = runtime.now_ms(), context_of(plan, runtime.now_ms())
        queue = next((one.name for one in plan.cluster.queues if one.reservable), None)
    try:
        graph = compile_expression(expression, context)
    except RdlError as error:
        logger.debug("nothing is warmed up: %s", error)
        return None
    if queue is None:
        return None
    request = Request(runtime.new_id(), "", queue, submitted_ms, 1.0, 0, graph)
    return Ask(expression, None, request, runtime.config.agent, "")


def _seek_offers(runtime: Rehearser, little: Ask, much: Ask | None) -> None:
    """Do what a commit does that refuses one request and takes another."""
    if much is None:
        return
    agent = quick(agent_named(much.agent))
    with runtime.reading() as plan:
        search = OfferSearch.of(plan)
    requests = [little.request, much.request]
    results = agent.plan(requests, search.view, Limits())
    taken = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
    after = search.after(taken, search.view.version + 1)
    after.offers(much.request, much.expression, agent, 1)

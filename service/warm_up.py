"""warm_up: load code and kernels before the first client needs them."""

from __future__ import annotations

import logging
import os
import threading

from planner.agent import Limits
from planner.agents import agent_named
from planner.offer_search import OfferSearch, quick
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.plan.records.reservation_records import Admitted
from planner.promise import PromiseLevel
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.errors import RdlError
from rdl.expressions import AfterSubmission, AnyOf, Atom, Expression, Window
from rdl.resources import CPU, Resources
from service.commits.commands import Admission, Ask
from service.commits.planner import Planner
from service.commits.replica import Replica
from service.commits.screening import context_of

logger = logging.getLogger("agenda.service")


def warm_up(planner: Planner, replica: Replica, now_ms: int, agent: str) -> None:
    """Plan a small request, and search offers for a too large one, to load code and kernels.

    A search for offers has a quarter of a second; in a new process, loading takes longer than that.

    Parameters
    ----------
    now_ms
        Now, in ms from the Plan's origin.
    agent
        The server's default agent; others are loaded when used.
    """
    with replica.newest() as plan:
        little = _ask(plan, _expression(plan, 1), now_ms, agent)
        much = _ask(plan, _expression(plan, None), now_ms, agent)
    if little is not None:
        planner.rehearse(Admission((little,)))
        _seek_offers(replica, little, much)


def load_beside(replica: Replica) -> None:
    """Load the loops of the search for other machines in the background.

    The first request or repair that needs them would wait for half a minute or more in an
    installation where they have never been compiled. This needs no database.
    """
    with replica.locked() as plan:
        on_machines = plan.cluster.promise is not PromiseLevel.POOLED
    if on_machines:
        threading.Thread(target=_load_machines, name="agenda-kernels", daemon=True).start()


def _load_machines() -> None:
    from planner.machines.warm_up import load_machine_kernels

    load_machine_kernels()
    logger.debug("the search for machines is loaded")


def _expression(plan: Plan, bundles: int | None) -> Expression:
    """Return a request for `bundles`, or for more than there are, that has every kind of offer."""
    resource, step_ms = next(iter(plan.cluster.resources), CPU), plan.grid.step_ms
    count = plan.cluster.nominal[resource] + 1 if bundles is None else bundles
    atom = Atom(Resources.of({resource: 1}), count, count, step_ms, count * step_ms)
    late = Window(AfterSubmission(step_ms), AfterSubmission(3 * step_ms), atom)
    later = Window(AfterSubmission(2 * step_ms), AfterSubmission(4 * step_ms), atom)
    return AnyOf((late, later))


def _ask(plan: Plan, expression: Expression, now_ms: int, agent: str) -> Ask | None:
    """Return the request, or None on a Plan too short for it or without a queue for it."""
    queue = next((one.name for one in plan.cluster.queues if one.reservable), None)
    try:
        graph = compile_expression(expression, context_of(plan, now_ms))
    except RdlError as error:
        logger.debug("warming up failed: %s", error)
        return None
    if queue is None:
        return None
    request = Request(f"warm-up-{os.urandom(10).hex()}", "", queue, now_ms, 1.0, 0, graph)
    return Ask(expression, None, request, agent, "")


def _seek_offers(replica: Replica, little: Ask, much: Ask | None) -> None:
    """Run the steps of a commit that refuses one request and grants another."""
    if much is None:
        return
    agent = quick(agent_named(much.agent))
    with replica.newest() as plan:
        search = OfferSearch.of(plan)
    requests = [little.request, much.request]
    results = agent.plan(requests, search.view, Limits())
    admit = [
        Admit(request, result, agent.name)
        for request, result in zip(requests, results, strict=True)
        if result.placed
    ]
    with replica.newest() as plan:
        record = plan.prepare(admit, plan.version).record
    admitted = [] if record is None else record.changes
    taken = [one for one in admitted if isinstance(one, Admitted)]
    after = search.after(taken, search.view.version + 1)
    after.offers(much.request, much.expression, agent, 1)

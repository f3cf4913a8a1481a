"""Ask for reservations, renegotiate, cancel and close them; one function for each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.agents import AGENT_NAMES
from planner.plan.batch.admission import level_refusal
from planner.promise import asked_level
from planner.request import Request, text_as_written
from planner.reservations.reservation import Reservation
from planner.reservations.state import Transition
from rdl.compile.source import read_source
from rdl.errors import RdlError, did_you_mean
from service.access.actor import present_actor
from service.calls.reservations.additions import complete_change, complete_request
from service.calls.reservations.rdl import text_of
from service.commits.answers.responses import (
    atomic_render,
    batch_render,
    combine,
    render_created,
    render_state,
)
from service.commits.changes.commands import (
    Admission,
    Ask,
    Cancellation,
    Closure,
    Key,
    Renegotiation,
)
from service.commits.screening.ownership import require_own, tenant_of
from service.commits.screening.revision_check import no_reservation
from service.problems import (
    ApiError,
    ApiProblemError,
    ProblemDocument,
    malformed_problem,
    problem_of_rdl,
)
from service.response import Response, problem_response
from service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Options:
    """How an admission is to be carried out.

    Attributes
    ----------
    dry_run
        Answer as if, and change nothing.
    atomic
        All of a batch or none.
    key
        Idempotency-Key.
    """

    dry_run: bool = False
    atomic: bool = False
    key: Key | None = None


def read_ask(
    runtime: Runtime, values: Mapping[str, Any], pointer: str = "", offers: int = 0
) -> Ask:
    """Compile one request for a reservation.

    Parameters
    ----------
    values
        Fields of `service.http.views.reservations.reservations.ASK`.
    pointer
        Where the object stands in the body.
    offers
        Most offers that a refusal is to carry.

    Raises
    ------
    ApiProblemError
        For RDL that cannot be planned, an unknown agent, or a tenant that the caller does not act
        for.
    """
    tenant = tenant_of(present_actor().user, values["tenant"], pointer)
    agent = agent_of(runtime, values, pointer)
    submitted_ms = runtime.now_ms()
    rdl = values["rdl"]
    source = text_of(rdl)
    try:
        asked = read_source(rdl)
        completed = complete_request(runtime, asked)
        graph = runtime.compile(completed.expression, submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, f"{pointer}/rdl") from error
    request = Request(
        id=values["id"] or runtime.new_id(),
        tenant=tenant,
        queue=values["queue"],
        submitted_ms=submitted_ms,
        weight=values["weight"],
        priority=values["priority"],
        graph=replace(graph, notes=(*completed.notes, *graph.notes)),
        promise=asked_level(values),
        written=text_as_written(rdl, asked, graph.expression),
    )
    return Ask(
        completed.expression, source, request, agent, pointer, offers, completed.notes,
        completed.allow_start, has_made_id=not values["id"],
    )  # fmt: skip


def read_change(runtime: Runtime, reservation: str, values: Mapping[str, Any]) -> Ask:
    """Compile what a reservation is to become; absent fields stay as they are.

    Raises
    ------
    ApiProblemError
        ``not_found``, ``wrong_state`` for a refused request, or as :func:`read_ask`.
    """
    with runtime.reading() as plan:
        require_own(plan, present_actor().user, reservation)
        present = plan.reservation(reservation)
        if present is None:
            raise ApiProblemError(no_reservation(plan, reservation, Transition.RENEGOTIATE))
        cluster = plan.cluster
    _check_kept(present, values)
    agent = agent_of(runtime, values, "")
    rdl = values["rdl"]
    source = text_of(rdl)
    try:
        asked = read_source(rdl)
        completed = complete_change(runtime, asked, present)
        graph = runtime.compile(completed.expression, present.submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    request = Request(
        id=reservation,
        tenant=present.tenant,
        queue=present.queue,
        submitted_ms=present.submitted_ms,
        weight=present.weight if values["weight"] is None else values["weight"],
        priority=present.priority if values["priority"] is None else values["priority"],
        graph=replace(graph, notes=(*completed.notes, *graph.notes)),
        promise=asked_level(values) or present.promise,
        written=text_as_written(rdl, asked, graph.expression),
    )
    if request.promise is not present.promise:
        refused = level_refusal(cluster, request)
        if refused is not None:
            raise malformed_problem([ApiError(refused.detail, pointer="/promise")])
    return Ask(completed.expression, source, request, agent, "", notes=completed.notes)


def _check_kept(present: Reservation, values: Mapping[str, Any]) -> None:
    """Refuse a change of what a reservation keeps for all its life."""
    kept = {"id": present.id, "tenant": present.tenant, "queue": present.queue}
    errors = [
        ApiError(
            f"the {name} of {present.id!r} is {known!r}, and stays so",
            pointer=f"/{name}",
            fix="leave it out, or ask for another reservation",
        )
        for name, known in kept.items()
        if values.get(name) not in (None, known)
    ]
    if errors:
        raise malformed_problem(errors)


def agent_of(runtime: Runtime, values: Mapping[str, Any], pointer: str) -> str:
    """Return the name of the agent that is asked for, or the server's.

    Raises
    ------
    ApiProblemError
        ``malformed`` for one that there is not.
    """
    name = str(values["agent"] or runtime.config.agent)
    if name not in AGENT_NAMES:
        fix = did_you_mean(name, AGENT_NAMES)
        error = ApiError(f"there is no agent {name!r}", pointer=f"{pointer}/agent", fix=fix)
        raise malformed_problem([error])
    return name


def admit(runtime: Runtime, ask: Ask, options: Options) -> Response:
    """Reserve, or answer why not; nothing is kept of a dry run."""
    command = Admission((ask,))
    if options.dry_run:
        return render_state(runtime.planner.rehearse(command))
    return runtime.planner.respond(command, render_created, options.key)


def admit_batch(
    runtime: Runtime, asks: Sequence[Ask | ProblemDocument], options: Options
) -> Response:
    """Reserve many, each on its own (200) or all or nothing (201, or the first refusal)."""
    good = tuple(ask for ask in asks if isinstance(ask, Ask))
    bad = [ask for ask in asks if isinstance(ask, ProblemDocument)]
    if options.atomic and bad:
        return problem_response(combine(bad))
    render = atomic_render(dry_run=options.dry_run) if options.atomic else batch_render(asks)
    if not good:
        return render(())
    command = Admission(good, options.atomic)
    if options.dry_run:
        return render(runtime.planner.rehearse(command))
    return runtime.planner.respond(command, render, options.key)


def renegotiate(
    runtime: Runtime, ask: Ask, revision: int | None, *, dry_run: bool = False
) -> Response:
    """Swap the reservation `ask.request.id` for another request, or leave all as it was."""
    if dry_run:
        return render_state(runtime.planner.rehearse(Renegotiation(ask, revision)))
    return runtime.planner.respond(Renegotiation(ask, revision), render_state)


def cancel(runtime: Runtime, reservation: str, revision: int | None) -> Response:
    """Give up a reservation."""
    return runtime.planner.respond(Cancellation(reservation, revision), render_state)


def close(runtime: Runtime, reservation: str, revision: int | None) -> Response:
    """End a reservation early."""
    return runtime.planner.respond(Closure(reservation, revision), render_state)

"""One function a call: everything between a parsed request and the answer, without HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.agents import AGENT_NAMES
from planner.cluster import Cluster
from planner.request import Request
from planner.reservation_state import Event
from rdl.codecs.json_codec import to_json
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.text.formatter import format_expression
from service.commits.commands import (
    Admission,
    Ask,
    Cancellation,
    Closing,
    Key,
    Reconfiguration,
    Rendered,
    Renegotiation,
)
from service.commits.pending import cluster_tag, no_reservation
from service.commits.responses import (
    atomic_render,
    batch_render,
    combined,
    render_cluster,
    render_created,
    render_problem,
    render_state,
)
from service.problems import (
    ApiError,
    ApiProblemError,
    ProblemDocument,
    malformed,
    nearest,
    problem_of_rdl,
)
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


def check_rdl(runtime: Runtime, source: object) -> dict[str, object]:
    """Compile only; return canonical text, JSON form and notes.

    Raises
    ------
    ApiProblemError
        With every problem of the source.
    """
    try:
        expression = read_source(source)
        graph = runtime.compile(expression, runtime.now_ms(), _text_of(source))
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    return {
        "valid": True,
        "canonical": format_expression(expression),
        "json": to_json(expression),
        "notes": list(graph.notes),
        "atoms": len(graph.atoms),
    }


def read_ask(
    runtime: Runtime, values: Mapping[str, Any], pointer: str = "", offers: int = 0
) -> Ask:
    """Compile one request for a reservation.

    Parameters
    ----------
    values
        Fields of `service.api.views.reservations.ASK`.
    pointer
        Where the object stands in the body.
    offers
        Most offers that a refusal is to carry.

    Raises
    ------
    ApiProblemError
        For RDL that cannot be planned, or an unknown agent.
    """
    agent = agent_of(runtime, values, pointer)
    submitted_ms = runtime.now_ms()
    rdl = values["rdl"]
    source = _text_of(rdl)
    try:
        expression = read_source(rdl)
        graph = runtime.compile(expression, submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, f"{pointer}/rdl") from error
    request = Request(
        id=values["id"] or runtime.new_id(),
        tenant=values["tenant"],
        queue=values["queue"],
        submitted_ms=submitted_ms,
        weight=values["weight"],
        priority=values["priority"],
        graph=graph,
        creditable=values["creditable"],
    )
    return Ask(expression, source, request, agent, pointer, offers)


def read_change(runtime: Runtime, reservation: str, values: Mapping[str, Any]) -> Ask:
    """Compile what a reservation is to become; absent fields stay as they are.

    Raises
    ------
    ApiProblemError
        ``not_found``, ``wrong_state`` for a refused request, or as :func:`read_ask`.
    """
    with runtime.reading() as plan:
        present = plan.reservation(reservation)
        if present is None:
            raise ApiProblemError(no_reservation(plan, reservation, Event.RENEGOTIATE))
    agent = agent_of(runtime, values, "")
    rdl = values["rdl"]
    source = _text_of(rdl)
    try:
        expression = read_source(rdl)
        graph = runtime.compile(expression, present.submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    request = Request(
        id=reservation,
        tenant=present.tenant,
        queue=present.queue,
        submitted_ms=present.submitted_ms,
        weight=present.weight if values["weight"] is None else values["weight"],
        priority=present.priority if values["priority"] is None else values["priority"],
        graph=graph,
        creditable=present.creditable,
    )
    return Ask(expression, source, request, agent, "")


def _text_of(rdl: object) -> str | None:
    return rdl if isinstance(rdl, str) else None


def agent_of(runtime: Runtime, values: Mapping[str, Any], pointer: str) -> str:
    """Return the name of the agent that is asked for, or the server's.

    Raises
    ------
    ApiProblemError
        ``malformed`` for one that there is not.
    """
    name = str(values["agent"] or runtime.config.agent)
    if name not in AGENT_NAMES:
        fix = nearest(name, AGENT_NAMES)
        error = ApiError(f"there is no agent {name!r}", pointer=f"{pointer}/agent", fix=fix)
        raise malformed([error])
    return name


def replay(runtime: Runtime, key: Key | None) -> Rendered | None:
    """Return the answer given before under `key`, or None.

    Raises
    ------
    ApiProblemError
        ``idempotency_mismatch`` when the key came with another request.
    """
    found = None if key is None else runtime.recall(key)
    if isinstance(found, ProblemDocument):
        raise ApiProblemError(found)
    return found


def admit(runtime: Runtime, ask: Ask, options: Options) -> Rendered:
    """Reserve, or answer why not; nothing is kept of a dry run."""
    command = Admission((ask,))
    if options.dry_run:
        return render_state(runtime.rehearse(command))
    return runtime.change(command, render_created, options.key)


def admit_batch(
    runtime: Runtime, asks: Sequence[Ask | ProblemDocument], options: Options
) -> Rendered:
    """Reserve many, each on its own (200) or all or nothing (201, or the first refusal)."""
    good = tuple(ask for ask in asks if isinstance(ask, Ask))
    bad = [ask for ask in asks if isinstance(ask, ProblemDocument)]
    if options.atomic and bad:
        return render_problem(combined(bad))
    render = atomic_render(dry_run=options.dry_run) if options.atomic else batch_render(asks)
    if not good:
        return render(())
    command = Admission(good, options.atomic)
    if options.dry_run:
        return render(runtime.rehearse(command))
    return runtime.change(command, render, options.key)


def renegotiate(runtime: Runtime, ask: Ask, revision: int | None) -> Rendered:
    """Swap the reservation `ask.request.id` for another request, or leave all as it was."""
    return runtime.change(Renegotiation(ask, revision), render_state)


def cancel(runtime: Runtime, reservation: str, revision: int | None) -> Rendered:
    """Give up a reservation."""
    return runtime.change(Cancellation(reservation, revision), render_state)


def close(runtime: Runtime, reservation: str, revision: int | None) -> Rendered:
    """End a reservation early."""
    return runtime.change(Closing(reservation, revision), render_state)


def present_cluster(runtime: Runtime) -> tuple[Cluster, str]:
    """Return the cluster's description and its tag."""
    with runtime.reading() as plan:
        return plan.cluster, cluster_tag(plan.cluster)


def reconfigure(runtime: Runtime, wanted: Cluster, tag: str | None) -> Rendered:
    """Plan on another description of the cluster from now on.

    Raises
    ------
    ApiProblemError
        ``malformed`` when it changes the step or the origin, which every promise is counted from.
    """
    present, _ = present_cluster(runtime)
    errors = []
    if wanted.step_ms != present.step_ms:
        errors.append(ApiError("the step of a plan cannot change", pointer="/step"))
    if wanted.origin not in (None, present.origin):
        errors.append(ApiError("the origin of a plan cannot change", pointer="/origin"))
    if errors:
        raise malformed(errors)
    whole = replace(wanted, origin=present.origin)
    return runtime.change(Reconfiguration(whole, tag), render_cluster)

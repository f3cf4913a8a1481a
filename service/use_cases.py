"""One function a call: everything between a parsed request and the answer, without HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from planner.agents import AGENT_NAMES
from planner.cluster import Cluster
from planner.files import cluster_to_json
from planner.request import Request
from rdl.errors import RdlError
from rdl.formatter import format_expression
from rdl.json_codec import to_json
from rdl.source import read_source
from service.api.fields import malformed
from service.commands import (
    SPOILT,
    Admission,
    Answer,
    Ask,
    Cancellation,
    Closing,
    Described,
    Done,
    Key,
    Reconfiguration,
    Rendered,
    Renegotiation,
)
from service.drafts import cluster_tag
from service.problems import (
    CONTENT_TYPE,
    ApiError,
    ApiProblemError,
    ProblemDocument,
    detail_of,
    nearest,
    problem,
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


def read_ask(runtime: Runtime, values: Mapping[str, Any], pointer: str = "") -> Ask:
    """Compile one request for a reservation.

    Parameters
    ----------
    values
        Fields of `service.api.reservations.ASK`.
    pointer
        Where the object stands in the body.

    Raises
    ------
    ApiProblemError
        For RDL that cannot be planned, or an unknown agent.
    """
    agent = values["agent"] or runtime.config.agent
    _require_known(agent, AGENT_NAMES, f"{pointer}/agent")
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
    )
    return Ask(expression, source, request, agent, pointer)


def read_change(runtime: Runtime, reservation: str, values: Mapping[str, Any]) -> Ask:
    """Compile what a reservation is to become; absent fields stay as they are.

    Raises
    ------
    ApiProblemError
        ``not_found``, or as :func:`read_ask`.
    """
    with runtime.reading() as plan:
        present = plan.reservation(reservation)
    if present is None:
        raise problem("not_found", f"there is no reservation {reservation!r}")
    agent = values["agent"] or runtime.config.agent
    _require_known(agent, AGENT_NAMES, "/agent")
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
    )
    return Ask(expression, source, request, agent, "")


def _text_of(rdl: object) -> str | None:
    return rdl if isinstance(rdl, str) else None


def _require_known(name: str, known: Collection[str], pointer: str) -> None:
    if name not in known:
        error = ApiError(f"there is no agent {name!r}", pointer=pointer, fix=nearest(name, known))
        raise malformed([error])


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
        return _render_state(runtime.rehearse(command))
    return runtime.change(command, _render_created, options.key)


def admit_batch(
    runtime: Runtime, asks: Sequence[Ask | ProblemDocument], options: Options
) -> Rendered:
    """Reserve many, each on its own (200) or all or nothing (201, or the first refusal)."""
    good = tuple(ask for ask in asks if isinstance(ask, Ask))
    bad = [ask for ask in asks if isinstance(ask, ProblemDocument)]
    if options.atomic and bad:
        return render_problem(_combined(bad))
    render = _atomic_render(options) if options.atomic else _batch_render(asks)
    if not good:
        return render(())
    command = Admission(good, options.atomic)
    if options.dry_run:
        return render(runtime.rehearse(command))
    return runtime.change(command, render, options.key)


def renegotiate(runtime: Runtime, ask: Ask, revision: int | None) -> Rendered:
    """Swap the reservation `ask.request.id` for another request, or leave all as it was."""
    return runtime.change(Renegotiation(ask, revision), _render_state)


def cancel(runtime: Runtime, reservation: str, revision: int | None) -> Rendered:
    """Give up a reservation."""
    return runtime.change(Cancellation(reservation, revision), _render_state)


def close(runtime: Runtime, reservation: str, revision: int | None) -> Rendered:
    """End a reservation early."""
    return runtime.change(Closing(reservation, revision), _render_state)


def render_problem(document: ProblemDocument) -> Rendered:
    """Return a problem as it goes over the wire."""
    headers = {**document.headers, "Content-Type": CONTENT_TYPE}
    return Rendered(document.status, msgspec.json.encode(document.to_json()), headers)


def _render_created(answers: Sequence[Answer]) -> Rendered:
    rendered = _render_state(answers)
    answer = answers[0]
    if not isinstance(answer, Done):
        return rendered
    location = {"Location": f"/v1/reservations/{answer.reservation.id}"}
    return replace(rendered, status=201, headers={**rendered.headers, **location})


def _render_state(answers: Sequence[Answer]) -> Rendered:
    match answers[0]:
        case ProblemDocument() as document:
            return render_problem(document)
        case Done() as done:
            tag = {"ETag": f'"{done.reservation.revision}"'}
            return Rendered(200, msgspec.json.encode(done.to_json()), tag)
        case Described():
            raise TypeError("a change of a reservation is not answered with the cluster")


def _batch_render(
    asks: Sequence[Ask | ProblemDocument],
) -> Callable[[Sequence[Answer]], Rendered]:
    """Return a renderer that puts the answers of the good asks between the bad ones."""

    def render(answers: Sequence[Answer]) -> Rendered:
        rest = iter(answers)
        every = [next(rest) if isinstance(ask, Ask) else ask for ask in asks]
        return Rendered(200, _batch_body(every))

    return render


def _batch_body(answers: Sequence[Answer]) -> bytes:
    versions = [answer.version for answer in answers if isinstance(answer, Done)]
    results = [_result(answer) for answer in answers]
    return msgspec.json.encode({"version": max(versions, default=None), "results": results})


def _result(answer: Answer) -> dict[str, object]:
    match answer:
        case ProblemDocument() as document:
            return {"status": document.status, "body": document.to_json()}
        case Done() as done:
            return {"status": 201, "body": done.to_json()}
        case Described():
            raise TypeError("a request is not answered with the cluster")


def _atomic_render(options: Options) -> Callable[[Sequence[Answer]], Rendered]:
    def render(answers: Sequence[Answer]) -> Rendered:
        bad = [one for one in answers if isinstance(one, ProblemDocument) and one is not SPOILT]
        if bad:
            return render_problem(_combined(bad))
        return Rendered(200 if options.dry_run else 201, _batch_body(answers))

    return render


def _combined(bad: Sequence[ProblemDocument]) -> ProblemDocument:
    """Return one problem for an all-or-nothing batch: the code of the first, the errors of all."""
    errors = tuple(
        error
        for document in bad
        for error in document.errors or (ApiError(document.detail, document.code),)
    )
    return ProblemDocument(bad[0].code, f"nothing was reserved: {detail_of(errors)}", errors)


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
    return runtime.change(Reconfiguration(whole, tag), _render_cluster)


def _render_cluster(answers: Sequence[Answer]) -> Rendered:
    match answers[0]:
        case ProblemDocument() as document:
            return render_problem(document)
        case Described(cluster=cluster):
            body = msgspec.json.encode(cluster_to_json(cluster))
            return Rendered(200, body, {"ETag": f'"{cluster_tag(cluster)}"'})
        case Done():
            raise TypeError("a change of the cluster is not answered with a reservation")

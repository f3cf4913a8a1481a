"""Render the answers to a change as a response, and store it under its key.

The first answer to an Idempotency-Key is stored with its change, and returned again later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec

from planner.files import cluster_to_json
from rdl.errors import ProblemList
from service.commits.commands import (
    SPOILT,
    AdaptationAnswer,
    Answer,
    Ask,
    ClusterAnswer,
    Command,
    Key,
    Keyed,
    OptimizationAnswer,
    ReservationAnswer,
)
from service.commits.planner import Planner
from service.commits.screening import cluster_tag
from service.problems import ApiError, ProblemDocument, detail_of
from service.response import JSON, Response, problem_response
from service.store import CompanionRow, IdempotentAnswer

_MEDIA: Final = "Content-Type"

#: Makes the response from the answers to a command.
Render: TypeAlias = Callable[[Sequence[Answer]], Response]


def respond(
    planner: Planner,
    command: Command,
    render: Render,
    key: Key | None = None,
    companions: Sequence[CompanionRow] = (),
) -> Response:
    """Carry out a command and return the response that `render` makes from its answers.

    With a key, the response is stored in the transaction of the change, and an already stored
    response is returned without a change. `companions` are stored in the same transaction.

    Raises
    ------
    ApiProblemError
        As `Planner.change`.
    """
    if key is None:
        return render(planner.change(command, companions))

    def row_of(answers: Sequence[Answer], at_ms: int) -> IdempotentAnswer:
        return stored_answer(key, render(answers), at_ms)

    done = planner.change_once(command, Keyed(key, row_of), companions)
    return _stored_response(key, done) if isinstance(done, IdempotentAnswer) else render(done)


def recall(planner: Planner, key: Key) -> Response | None:
    """Return the response stored under a key, or None; a problem if the request differs."""
    stored = planner.stored(key)
    return None if stored is None else _stored_response(key, stored)


def stored_answer(key: Key, response: Response, at_ms: int) -> IdempotentAnswer:
    """Return the row that stores a response under a key; `at_ms` is Unix ms."""
    headers = dict(response.headers)
    if response.media != JSON:
        headers[_MEDIA] = response.media
    return IdempotentAnswer(
        key.text, key.fingerprint, at_ms, response.status, response.payload(), headers
    )


def _stored_response(key: Key, stored: IdempotentAnswer) -> Response:
    if stored.request_hash == key.fingerprint:
        headers = dict(stored.headers)
        media = headers.pop(_MEDIA, JSON)
        return Response(stored.status, stored.body, headers, media)
    detail = "the Idempotency-Key was used for another request"
    error = ApiError(
        "use a new key for a new request", "idempotency_mismatch", pointer="Idempotency-Key"
    )
    return problem_response(ProblemDocument("idempotency_mismatch", detail, (error,)))


def render_created(answers: Sequence[Answer]) -> Response:
    """Return the answer to one admission: 201 with its location, or the problem."""
    response = render_state(answers)
    answer = answers[0]
    if not isinstance(answer, ReservationAnswer):
        return response
    if answer.known:
        return response
    location = {"Location": f"/v1/reservations/{answer.reservation.id}"}
    return replace(response, status=201, headers={**response.headers, **location})


def render_state(answers: Sequence[Answer]) -> Response:
    """Return a reservation after a change, or the problem."""
    match answers[0]:
        case ProblemDocument() as document:
            return problem_response(document)
        case ReservationAnswer() as done:
            tag = {"ETag": f'"{done.reservation.revision}"'}
            return Response(200, msgspec.json.encode(done.to_json()), tag)
        case ClusterAnswer() | AdaptationAnswer() | OptimizationAnswer():
            raise TypeError("a change of a reservation cannot return the cluster")


def batch_render(
    asks: Sequence[Ask | ProblemDocument],
) -> Render:
    """Return a renderer that merges answers of valid requests with problems of invalid ones."""

    def render(answers: Sequence[Answer]) -> Response:
        rest = iter(answers)
        every = [next(rest) if isinstance(ask, Ask) else ask for ask in asks]
        return Response(200, _batch_body(every))

    return render


def _batch_body(answers: Sequence[Answer]) -> bytes:
    versions = [answer.version for answer in answers if isinstance(answer, ReservationAnswer)]
    results = [_result(answer) for answer in answers]
    return msgspec.json.encode({"version": max(versions, default=None), "results": results})


def _result(answer: Answer) -> dict[str, object]:
    match answer:
        case ProblemDocument() as document:
            return {"status": document.status, "body": document.to_json()}
        case ReservationAnswer() as done:
            return {"status": 200 if done.known else 201, "body": done.to_json()}
        case ClusterAnswer() | AdaptationAnswer() | OptimizationAnswer():
            raise TypeError("a request cannot return the cluster")


def atomic_render(*, dry_run: bool) -> Render:
    """Return a renderer of an all-or-nothing batch."""

    def render(answers: Sequence[Answer]) -> Response:
        bad = [one for one in answers if isinstance(one, ProblemDocument) and one is not SPOILT]
        if bad:
            return problem_response(combine(bad))
        return Response(200 if dry_run else 201, _batch_body(answers))

    return render


def combine(bad: Sequence[ProblemDocument]) -> ProblemDocument:
    """Return one problem for an all-or-nothing batch: the code of the first, the errors of all."""
    errors: ProblemList[ApiError] = ProblemList()
    for document in bad:
        errors.extend(document.errors or (ApiError(document.detail, document.code),))
    return ProblemDocument(bad[0].code, f"nothing was reserved: {detail_of(errors)}", errors)


def render_cluster(answers: Sequence[Answer]) -> Response:
    """Return the cluster after a change, or the problem."""
    match answers[0]:
        case ProblemDocument() as document:
            return problem_response(document)
        case ClusterAnswer(cluster=cluster):
            body = msgspec.json.encode(cluster_to_json(cluster))
            return Response(200, body, {"ETag": f'"{cluster_tag(cluster)}"'})
        case ReservationAnswer() | AdaptationAnswer() | OptimizationAnswer():
            raise TypeError("a change of the cluster cannot return a reservation")

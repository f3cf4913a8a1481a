"""From answers to responses: status, body, headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from planner.files import cluster_to_json
from rdl.errors import ProblemList
from service.commits.changes.commands import (
    SPOILT,
    AdaptationAnswer,
    Answer,
    Ask,
    ClusterAnswer,
    OptimizationAnswer,
    Render,
    ReservationAnswer,
)
from service.commits.screening.revision_check import cluster_tag
from service.problems import ApiError, ProblemDocument, detail_of
from service.response import Response, problem_response


def render_created(answers: Sequence[Answer]) -> Response:
    """Return the answer to one admission: 201 with its place, or the problem."""
    response = render_state(answers)
    answer = answers[0]
    if not isinstance(answer, ReservationAnswer):
        return response
    if answer.known:
        return response
    location = {"Location": f"/v1/reservations/{answer.reservation.id}"}
    return replace(response, status=201, headers={**response.headers, **location})


def render_state(answers: Sequence[Answer]) -> Response:
    """Return a reservation as a change left it, or the problem."""
    match answers[0]:
        case ProblemDocument() as document:
            return problem_response(document)
        case ReservationAnswer() as done:
            tag = {"ETag": f'"{done.reservation.revision}"'}
            return Response(200, msgspec.json.encode(done.to_json()), tag)
        case ClusterAnswer() | AdaptationAnswer() | OptimizationAnswer():
            raise TypeError("a change of a reservation is not answered with the cluster")


def batch_render(
    asks: Sequence[Ask | ProblemDocument],
) -> Render:
    """Return a renderer that puts the answers of the good asks between the bad ones."""

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
            raise TypeError("a request is not answered with the cluster")


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
    """Return the cluster as a change left it, or the problem."""
    match answers[0]:
        case ProblemDocument() as document:
            return problem_response(document)
        case ClusterAnswer(cluster=cluster):
            body = msgspec.json.encode(cluster_to_json(cluster))
            return Response(200, body, {"ETag": f'"{cluster_tag(cluster)}"'})
        case ReservationAnswer() | AdaptationAnswer() | OptimizationAnswer():
            raise TypeError("a change of the cluster is not answered with a reservation")

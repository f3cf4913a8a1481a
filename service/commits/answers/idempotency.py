"""Idempotency-Key: the first answer is stored with its change, and given again."""

from __future__ import annotations

from service.commits.changes.commands import Key, QueuedChange
from service.problems import ApiError, ProblemDocument
from service.response import JSON, Response, problem_response
from service.store import IdempotentAnswer, Store

_MEDIA = "Content-Type"


def recall(store: Store, key: Key) -> Response | None:
    """Return the response that is stored under a key; a problem where another request used it."""
    stored = store.answer(key.text)
    if stored is None:
        return None
    if stored.request_hash == key.fingerprint:
        headers = dict(stored.headers)
        media = headers.pop(_MEDIA, JSON)
        return Response(stored.status, stored.body, headers, media)
    detail = "the Idempotency-Key was used for another request"
    error = ApiError(
        "use a new key for a new request", "idempotency_mismatch", pointer="Idempotency-Key"
    )
    return problem_response(ProblemDocument("idempotency_mismatch", detail, (error,)))


def stored_answer_of(job: QueuedChange, at_ms: int) -> IdempotentAnswer:
    """Return the row to store for a job with a key whose answers are known.

    Sets the job's response, so that the first answer and every repetition are one.

    Parameters
    ----------
    at_ms
        Now, Unix ms.
    """
    assert job.key is not None
    assert job.render is not None
    job.response = job.render(job.answers)
    return stored_answer(job.key, job.response, at_ms)


def stored_answer(key: Key, response: Response, at_ms: int) -> IdempotentAnswer:
    """Return the row that stores a response under a key; `at_ms` is Unix ms."""
    headers = dict(response.headers)
    if response.media != JSON:
        headers[_MEDIA] = response.media
    return IdempotentAnswer(
        key.text, key.fingerprint, at_ms, response.status, response.payload(), headers
    )

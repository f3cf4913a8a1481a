"""Idempotency-Key: the first answer is stored with its commit and told again."""

from __future__ import annotations

from service.commits.commands import Key, QueuedChange, Rendered
from service.problems import ApiError, ProblemDocument
from service.store import RememberedAnswer, Store


def recall(store: Store, key: Key) -> Rendered | ProblemDocument | None:
    """Return what was answered under `key`: the same again, or a problem for another request."""
    known = store.answer(key.text)
    if known is None:
        return None
    if known.request_hash == key.fingerprint:
        return Rendered(known.status, known.body, dict(known.headers))
    detail = f"the key {key.text!r} was used for another request"
    error = ApiError(
        "use a new key for a new request", "idempotency_mismatch", pointer="Idempotency-Key"
    )
    return ProblemDocument("idempotency_mismatch", detail, (error,))


def remembered_of(job: QueuedChange, key: Key, at_ms: int) -> RememberedAnswer:
    """Return the row to store for a job whose answers are known.

    Sets the job's wire form, so that the first answer and every repetition are one.
    """
    rendered = job.rendered = job.render(job.answers)
    return kept_answer(key, rendered, at_ms)


def kept_answer(key: Key, rendered: Rendered, at_ms: int) -> RememberedAnswer:
    """Return the row of an answer under a key; Unix ms."""
    return RememberedAnswer(
        key.text, key.fingerprint, at_ms, rendered.status, rendered.body, rendered.headers
    )

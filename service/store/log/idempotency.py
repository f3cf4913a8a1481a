"""Answers under an Idempotency-Key: stored in the transaction of the change they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: Parameters: `row_of` an answer.
INSERT_ANSWER: Final = (
    "INSERT INTO answers (key, request_hash, at_ms, status, headers, body) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class IdempotentAnswer:
    """The answer given under an Idempotency-Key, and a hash of the request it was given to."""

    key: str
    request_hash: bytes
    at_ms: int
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def row_of(answer: IdempotentAnswer) -> tuple[object, ...]:
    """Return an answer in the order of the table's columns."""
    headers = json.dumps(dict(answer.headers))
    key, request_hash = answer.key, answer.request_hash
    return key, request_hash, answer.at_ms, answer.status, headers, answer.body


def answer_of(row: Sequence[Any]) -> IdempotentAnswer:
    """Return the answer of a row."""
    key, request_hash, at_ms, status, headers, body = row
    return IdempotentAnswer(key, request_hash, at_ms, status, body, json.loads(headers))

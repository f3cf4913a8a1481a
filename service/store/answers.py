"""Answers under an Idempotency-Key: stored in the transaction of the change they answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class IdempotentAnswer:
    """The answer stored under an Idempotency-Key, and a hash of its request."""

    key: str
    request_hash: bytes
    at_ms: int
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Return the values of the table's columns."""
        return {
            "key": self.key,
            "request_hash": self.request_hash,
            "at_ms": self.at_ms,
            "status": self.status,
            "headers": json.dumps(dict(self.headers)),
            "body": self.body,
        }


def answer_of(row: Sequence[Any]) -> IdempotentAnswer:
    """Return the answer of a row."""
    key, request_hash, at_ms, status, headers, body = row
    return IdempotentAnswer(key, request_hash, at_ms, status, body, json.loads(headers))

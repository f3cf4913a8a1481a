"""Response: the response to a client, for success or failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import msgspec

from service.problems import CONTENT_TYPE, ProblemDocument

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body and headers of an answer.

    Attributes
    ----------
    body
        A value for JSON, bytes to send unchanged, or an iterator of bytes to send piece by piece.
    headers
        Headers except the content type and the length.
    media
        Content type of the body.
    """

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON

    def payload(self) -> bytes:
        """Return the bytes of a body that is not an iterator."""
        if self.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
            return b""
        return self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)


def problem_response(document: ProblemDocument) -> Response:
    """Return a problem as a response (RFC 9457)."""
    return Response(document.status, document.to_json(), document.headers, CONTENT_TYPE)

"""YARN's format: JSON bodies, and YarnFault with the exception names that clients expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.problems import ProblemDocument
from service.response import Response

#: YARN's message for a call without a user.
NO_USER: Final = "Unable to obtain user name, user not authenticated"

_WEB: Final = "org.apache.hadoop.yarn.webapp"
_OTHER: Final = "javax.ws.rs.WebApplicationException"

#: Status -> the Java class that YARN's server throws for it.
_CLASSES: Final[dict[int, str]] = {
    400: f"{_WEB}.BadRequestException",
    401: "org.apache.hadoop.security.authorize.AuthorizationException",
    403: f"{_WEB}.ForbiddenException",
    404: "java.io.IOException",
    503: "org.apache.hadoop.ipc.StandbyException",
}

#: Agenda's statuses that YARN's clients understand; others become 400.
_KEPT: Final = frozenset({401, 403, 405, 408, 413, 415, 421, 429, 500, 503})

#: The Content-Type of YARN's server.
_JSON_SENT: Final = "application/json;charset=utf-8"


class YarnFault(Exception):  # noqa: N818 - the answer of a call, not an error of the code
    """The failure of a call that YARN's server answers with a RemoteException.

    Attributes
    ----------
    status
        HTTP status.
    message
        The message that clients show.
    java_class
        Full name of the exception; clients also show its last part.
    headers
        Headers of the answer.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        java_class: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.message = message
        self.java_class = java_class or _CLASSES.get(status, _OTHER)
        self.headers = headers or {}
        super().__init__(message)

    def to_json(self) -> dict[str, str]:
        """Return the content of ``RemoteException``."""
        return {
            "exception": self.java_class.rpartition(".")[2],
            "message": self.message,
            "javaClassName": self.java_class,
        }


def number_fault(text: str) -> YarnFault:
    """Return the fault for text that is not a number, with Java's message."""
    return YarnFault(f'For input string: "{text}"', 400, "java.lang.NumberFormatException")


def fault_of(document: ProblemDocument) -> YarnFault:
    """Return the fault for a problem document."""
    status = document.status if document.status in _KEPT else 400
    message = NO_USER if status == 401 else _message_of(document)
    return YarnFault(message, status, headers=document.headers)


def refusal_fault(document: ProblemDocument) -> YarnFault:
    """Return the fault for a refusal by the planner."""
    if document.status in _KEPT:
        return fault_of(document)
    return YarnFault(f"The request cannot be satisfied: {document.detail}")


def _message_of(document: ProblemDocument) -> str:
    """Return all errors of a problem in one line, each with its place and fix."""
    told = [fault_line(error.pointer, error.message, error.fix) for error in document.errors]
    return "; ".join(told) or document.detail


def fault_line(pointer: str | None, message: str, fix: str | None) -> str:
    """Return the text of one error: its place, message, and fix if there is one."""
    where = f"{pointer}: " if pointer else ""
    return f"{where}{message}; {fix}" if fix else f"{where}{message}"


def read_body(body: Any, name: str) -> dict[str, Any]:
    """Return the members of a body; a missing body has none.

    Parameters
    ----------
    name
        YARN's name of the object.

    Raises
    ------
    YarnFault
        400 if it is not an object.
    """
    if body is None or body == "":
        return {}
    if not isinstance(body, dict):
        raise YarnFault(f"the body is no object; write {name} with its members")
    return body


def answer(value: Mapping[str, Any]) -> Response:
    """Return an answer with status 200 and a value."""
    return Response(200, msgspec.json.encode(value), media=_JSON_SENT)


def fault_response(fault: YarnFault) -> Response:
    """Return a fault as a ``RemoteException``."""
    body = msgspec.json.encode({"RemoteException": fault.to_json()})
    return Response(fault.status, body, fault.headers, _JSON_SENT)


def problem_as_fault(document: ProblemDocument) -> Response:
    """Return a problem document as a YARN fault."""
    return fault_response(fault_of(document))

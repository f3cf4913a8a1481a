"""YarnFault: what a failed call of YARN's answers, with the names that its clients know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.problems import ProblemDocument

#: What YARN says to a call that names no user.
NO_USER: Final = "Unable to obtain user name, user not authenticated"

_WEB: Final = "org.apache.hadoop.yarn.webapp"
_OTHER: Final = "javax.ws.rs.WebApplicationException"

#: Status -> the class of Java that YARN's server throws for it.
_CLASSES: Final[dict[int, str]] = {
    400: f"{_WEB}.BadRequestException",
    401: "org.apache.hadoop.security.authorize.AuthorizationException",
    403: f"{_WEB}.ForbiddenException",
    404: "java.io.IOException",
    503: "org.apache.hadoop.ipc.StandbyException",
}

#: Statuses of Agenda's own that a client of YARN's understands; all others are 400 to it.
_KEPT: Final = frozenset({401, 403, 405, 408, 413, 415, 421, 429, 500, 503})


class YarnFault(Exception):  # noqa: N818 - the answer of a call, not an error of the code
    """A call that YARN's server answers with a RemoteException.

    Attributes
    ----------
    status
        HTTP status.
    message
        What its client shows.
    java_class
        Full name of the exception; its last part is shown too.
    headers
        Of the answer.
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
        """Return what is listed under ``RemoteException``."""
        return {
            "exception": self.java_class.rpartition(".")[2],
            "message": self.message,
            "javaClassName": self.java_class,
        }


def number_fault(text: str) -> YarnFault:
    """Return the fault of a text where a number belongs, in the words of Java."""
    return YarnFault(f'For input string: "{text}"', 400, "java.lang.NumberFormatException")


def fault_of(document: ProblemDocument) -> YarnFault:
    """Return a problem of Agenda's as YARN's clients read it."""
    status = document.status if document.status in _KEPT else 400
    message = NO_USER if status == 401 else _message_of(document)
    return YarnFault(message, status, headers=document.headers)


def refusal_fault(document: ProblemDocument) -> YarnFault:
    """Return the planner's "no" as YARN's clients read it."""
    if document.status in _KEPT:
        return fault_of(document)
    return YarnFault(f"The request cannot be satisfied: {document.detail}")


def _message_of(document: ProblemDocument) -> str:
    """Return all faults of a problem in one line, each with its place and what would be right."""
    told = [fault_line(error.pointer, error.message, error.fix) for error in document.errors]
    return "; ".join(told) or document.detail


def fault_line(pointer: str | None, message: str, fix: str | None) -> str:
    """Return one fault: where it is, what is wrong, and what would be right where that is known."""
    where = f"{pointer}: " if pointer else ""
    return f"{where}{message}; {fix}" if fix else f"{where}{message}"

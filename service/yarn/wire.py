"""JSON in YARN's format: media type, bodies and faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.problems import ProblemDocument
from service.response import Response
from service.yarn.faults import YarnFault, fault_of

#: The Content-Type of YARN's server.
_JSON_SENT: Final = "application/json;charset=utf-8"


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

"""JSON as YARN's server reads and writes it: its media type, and its form of a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.problems import ProblemDocument
from service.response import Response
from service.yarn.faults import YarnFault, fault_of

#: As YARN's server names its form.
_JSON_SENT: Final = "application/json;charset=utf-8"


def read_body(body: Any, name: str) -> dict[str, Any]:
    """Return the members of a body; no body is an object without members.

    Parameters
    ----------
    name
        What YARN calls the object.

    Raises
    ------
    YarnFault
        400 where it is no object.
    """
    if body is None or body == "":
        return {}
    if not isinstance(body, dict):
        raise YarnFault(f"the body is no object; write {name} with its members")
    return body


def answer(value: Mapping[str, Any]) -> Response:
    """Return 200 with a value."""
    return Response(200, msgspec.json.encode(value), media=_JSON_SENT)


def fault_response(fault: YarnFault) -> Response:
    """Return a fault as a ``RemoteException``."""
    body = msgspec.json.encode({"RemoteException": fault.to_json()})
    return Response(fault.status, body, fault.headers, _JSON_SENT)


def problem_as_fault(document: ProblemDocument) -> Response:
    """Return a problem of Agenda's in the form of YARN's."""
    return fault_response(fault_of(document))

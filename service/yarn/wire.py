"""JSON or XML: how a client of YARN's wants its answer, and the answer in that form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.problems import ProblemDocument
from service.response import JSON, Response
from service.yarn.faults import YarnFault, fault_of
from service.yarn.xml_form import Value, read_xml, write_xml

XML: Final = "application/xml"

#: As YARN's server names its forms.
_JSON_SENT: Final = "application/json;charset=utf-8"
_XML_SENT: Final = "application/xml;charset=utf-8"

_ANY: Final = ("*/*", "application/*")


def wants_xml(accept: str) -> bool:
    """Return whether a header Accept ranks XML above JSON; JSON is what YARN offers first."""
    ranks: dict[str, float] = {}
    for part in accept.split(","):
        media, *parameters = (text.strip() for text in part.lower().split(";"))
        ranks[media] = _rank(parameters)
    anything = max((ranks[name] for name in _ANY if name in ranks), default=0.0)
    return ranks.get(XML, anything) > ranks.get(JSON, anything)


def _rank(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def read_body(media: str, body: Any, root: str) -> dict[str, Any]:
    """Return the members of a body.

    Parameters
    ----------
    body
        The JSON value, or the bytes of XML.
    root
        Name of the root element of XML.

    Raises
    ------
    YarnFault
        400 where it is no object.
    """
    value: Value | Any = body if media == JSON else read_xml(body, root)
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise YarnFault(f"the body is no object; write {root} with its members")
    return value


def answer(accept: str, root: str, value: Mapping[str, Any]) -> Response:
    """Return 200 with a value in the form that is wanted; JSON has no root."""
    return _respond(accept, 200, root, value, value)


def fault_response(fault: YarnFault, accept: str) -> Response:
    """Return a fault in the form that is wanted; both forms name it ``RemoteException``."""
    told = fault.to_json()
    response = _respond(accept, fault.status, "RemoteException", told, {"RemoteException": told})
    return Response(response.status, response.body, fault.headers, response.media)


def problem_as_fault(document: ProblemDocument, accept: str) -> Response:
    """Return a problem of Agenda's in the form of YARN's."""
    return fault_response(fault_of(document), accept)


def _respond(
    accept: str, status: int, root: str, inside: Mapping[str, Any], whole: Mapping[str, Any]
) -> Response:
    if wants_xml(accept):
        return Response(status, write_xml(root, inside), media=_XML_SENT)
    return Response(status, msgspec.json.encode(whole), media=_JSON_SENT)

"""YARN's calls in XML, both ways, and what no XML may do."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from werkzeug.test import TestResponse

from service.yarn.faults import YarnFault
from service.yarn.wire import wants_xml
from service.yarn.xml_form import read_xml, write_xml
from tests.service.conftest import Service
from tests.service.yarn.facts import ARRIVAL, BASE, ID, MINUTE, NOW, PERIOD, listed

XML = "application/xml"

STAGE = """
<reservation-request>
  <duration>60000</duration>
  <num-containers>220</num-containers>
  <min-concurrency>220</min-concurrency>
  <capability><memory>1024</memory><vCores>1</vCores></capability>
</reservation-request>
"""

DEFINITION = f"""
<reservation-definition>
  <arrival>{ARRIVAL}</arrival>
  <deadline>{ARRIVAL + MINUTE}</deadline>
  <reservation-name>res &lt;1&gt;</reservation-name>
  <recurrence-expression>{PERIOD}</recurrence-expression>
  <reservation-requests>
    <reservation-request-interpreter>0</reservation-request-interpreter>
    {STAGE}
  </reservation-requests>
</reservation-definition>
"""

SUBMISSION = f"""<?xml version="1.0" encoding="UTF-8"?>
<reservation-submission-context>
  <queue>dedicated</queue>
  <reservation-id>{ID}</reservation-id>
  {DEFINITION}
</reservation-submission-context>
"""

UPDATE = f"""
<reservation-update-context>
  <reservation-id>{ID}</reservation-id>
  {DEFINITION.replace("220", "10")}
</reservation-update-context>
"""

DELETE = f"""
<reservation-delete-context><reservation-id>{ID}</reservation-id></reservation-delete-context>
"""


def send(service: Service, path: str, body: str = "", accept: str = XML) -> TestResponse:
    """Make a call with a body in XML."""
    url, headers = f"{BASE}/{path}?user.name=alice", {"Accept": accept}
    return service.client.post(url, data=body, content_type=XML, headers=headers)


def test_all_five_calls(yarn: Service) -> None:
    """A client that speaks XML alone makes, changes, lists and deletes a reservation."""
    made = send(yarn, "new-reservation")
    assert made.get_data(as_text=True) == (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
        f"<new-reservation><reservation-id>reservation_{NOW}_0001</reservation-id>"
        "</new-reservation>"
    )

    sent = send(yarn, "submit", SUBMISSION)
    assert (sent.status_code, sent.get_data()) == (202, b"")

    changed = send(yarn, "update", UPDATE)
    assert changed.status_code == 200
    assert changed.get_data(as_text=True).endswith("<reservation-update-response/>")

    url = f"{BASE}/list?user.name=alice&queue=dedicated&include-resource-allocations=true"
    shown = yarn.client.get(url, headers={"Accept": XML})
    assert shown.content_type.startswith(XML)
    root = ET.fromstring(shown.get_data())
    assert root.tag == "reservationListInfo"
    assert root.findtext("reservations/reservation-id") == ID
    assert root.findtext("reservations/reservation-definition/reservation-name") == "res <1>"
    assert root.findtext("reservations/resource-allocations/resource/vCores") == "10"

    deleted = send(yarn, "delete", DELETE)
    assert deleted.get_data(as_text=True).endswith("<reservation-delete-response/>")
    assert listed(yarn) == []


def test_xml_and_json_mean_the_same(yarn: Service) -> None:
    """What was submitted as XML is listed in JSON, as if it had been sent so."""
    send(yarn, "submit", SUBMISSION, accept="application/json")

    (entry,) = listed(yarn)

    told = entry["reservation-definition"]
    assert told["arrival"] == str(ARRIVAL)
    assert told["reservation-requests"]["reservation-request"]["num-containers"] == "220"


def test_two_stages_are_two_elements(yarn: Service) -> None:
    """Elements that repeat are a list, in what is sent and in what is answered."""
    body = SUBMISSION.replace(STAGE, STAGE + STAGE.replace("220", "110"))
    assert send(yarn, "submit", body).status_code == 202

    url = f"{BASE}/list?user.name=alice&queue=dedicated"
    root = ET.fromstring(yarn.client.get(url, headers={"Accept": XML}).get_data())

    counts = [one.text for one in root.iter("num-containers")]
    assert counts == ["220", "110"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (SUBMISSION.replace(DEFINITION, ""), "Input ReservationDefinition should not be null"),
        ("<reservation-submission-context/>", "Input ReservationDefinition should not be null"),
        (SUBMISSION.replace(STAGE, ""), "The ReservationDefinition should contain at least one"),
        ("<other/>", "the root element is 'other'"),
        ("<a>", "the body is not XML"),
        ("", "the body is not XML"),
        (f"<reservation-submission-context>{'<a>' * 50}", "the XML is nested too deeply"),
    ],
)
def test_faults_are_xml_too(yarn: Service, body: str, message: str) -> None:
    """A RemoteException with its three elements, 400."""
    answer = send(yarn, "submit", body)

    root = ET.fromstring(answer.get_data())
    assert (answer.status_code, root.tag) == (400, "RemoteException")
    assert [child.tag for child in root] == ["exception", "message", "javaClassName"]
    assert str(root.findtext("message")).startswith(message)


def test_what_no_view_answers_is_xml_too(yarn: Service) -> None:
    """A body of a type that is not read, and a page from elsewhere, are told in XML."""
    url = f"{BASE}/submit?user.name=alice"
    typed = yarn.client.post(url, data="x", content_type="text/csv", headers={"Accept": XML})
    headers = {"Accept": XML, "Origin": "https://elsewhere.example"}
    foreign = yarn.client.post(url, json={}, headers=headers)

    assert (typed.status_code, foreign.status_code) == (415, 403)
    for answer in (typed, foreign):
        assert ET.fromstring(answer.get_data()).tag == "RemoteException"


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE r SYSTEM "http://elsewhere.example/r.dtd">',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>',
    ],
)
def test_document_types_are_refused(yarn: Service, declared: str) -> None:
    """No entity is expanded and no file or address looked at."""
    body = declared + DELETE.replace(ID, "&e;").strip()

    answer = send(yarn, "delete", body)

    assert answer.status_code == 400
    assert "a document type declaration is not read" in answer.get_data(as_text=True)
    assert "root:" not in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    "value",
    [
        {"a": "1"},
        {"a": {"b": "x"}, "c": ["1", "2"]},
        {"a": "<&>\"'"},
        {"a": [{"b": "1"}, {"b": "2", "c": "é"}]},
    ],
)
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    """Reading undoes writing."""
    assert read_xml(write_xml("root", value), "root") == value


def test_text_beside_elements_is_an_error() -> None:
    """YARN's bodies have none; it is not dropped without a word."""
    with pytest.raises(YarnFault, match="holds text beside its elements"):
        read_xml(b"<root>text<a>1</a></root>", "root")


@pytest.mark.parametrize(
    ("accept", "xml"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/xml", True),
        ("application/json, application/xml", False),
        ("application/json;q=0.5, application/xml", True),
        ("application/xml;q=0.9, */*;q=0.8", True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/xml;q=nonsense", False),
    ],
)
def test_which_form_is_wanted(accept: str, xml: bool) -> None:
    """XML where it ranks above JSON."""
    assert wants_xml(accept) == xml

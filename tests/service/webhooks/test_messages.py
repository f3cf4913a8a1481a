"""Events as messages for people: Slack's JSON, and one line of text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from service.webhooks.collection import MISSED, TEST, WEBHOOK_KINDS
from service.webhooks.messages import message_of
from tests.service.conftest import Open
from tests.service.webhooks.receiver import LOOPBACK, Receiver, hook_of, tell

_AT = "2026-11-29T02:10:00+00:00"

#: Event -> the message. The one table of these sentences.
MESSAGES: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"kind": "degraded", "reservation": "nightly", "tenant": "data", "at_at": _AT},
        "Warning: reservation nightly of tenant data is degraded: it lost machines or time that "
        "it was promised (2026-11-29 02:10 UTC)",
    ),
    (
        {"kind": "failed", "reservation": "r", "tenant": "t", "at_at": _AT, "reason": "too late"},
        "Warning: reservation r of tenant t has failed (2026-11-29 02:10 UTC): too late",
    ),
    (
        {"kind": "starting_soon", "reservation": "r", "tenant": "t", "at_at": _AT},
        "reservation r of tenant t begins soon (2026-11-29 02:10 UTC)",
    ),
    ({"kind": TEST}, "Agenda: this is a test of a webhook"),
    (
        {"kind": MISSED},
        "Agenda: events were lost while the server was unavailable; read the Plan again",
    ),
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver on this machine."""
    with Receiver.open() as one:
        yield one


@pytest.mark.parametrize(("event", "message"), MESSAGES, ids=lambda one: str(one)[:20])
def test_a_message_says_what_happened_when_and_why(event: dict[str, Any], message: str) -> None:
    """Each event of the table is its sentence."""
    assert message_of(event) == message


@pytest.mark.parametrize("kind", WEBHOOK_KINDS)
def test_every_kind_has_words_of_its_own(kind: str) -> None:
    """No kind falls back to its name."""
    said = message_of({"kind": kind, "reservation": "r", "tenant": "t"})
    assert said.removeprefix("Warning: ") != f"reservation r of tenant t {kind}"


@pytest.mark.parametrize("form", ["event", "slack", "text"])
def test_a_webhook_gets_its_format(open_service: Open, receiver: Receiver, form: str) -> None:
    """The body, its media type, and what the server shows of the webhook."""
    service = open_service(tick_s=0, webhook_networks=LOOPBACK)
    hook = hook_of(service, receiver.url, kinds=["accepted"], format=form)
    assert hook["format"] == form
    service.reserve("a", tenant="ads")
    tell(service)
    [(headers, body)] = receiver.got
    message = "reservation a of tenant ads was accepted"
    if form == "text":
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert body.decode().startswith(message)
    elif form == "slack":
        assert headers["content-type"] == "application/json"
        assert list(json.loads(body)) == ["text"]
        assert json.loads(body)["text"].startswith(message)
    else:
        assert json.loads(body)["kind"] == "accepted"


def test_an_unknown_format_is_refused(open_service: Open, receiver: Receiver) -> None:
    """It is named where it stands in the body."""
    service = open_service(tick_s=0, webhook_networks=LOOPBACK)
    body = {"url": receiver.url, "format": "teams"}
    answer = service.client.post("/v1/webhooks", json=body)
    assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "/format")

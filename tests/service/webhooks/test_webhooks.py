"""Webhooks: what is told to whom, signed, again after a failure, and never to ourselves."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from service.access.user import Role, User
from service.problems import ApiProblemError
from service.resources.webhooks import (
    NewWebhook,
    create_webhook,
    get_webhook,
    list_webhooks,
)
from service.webhooks.addresses import (
    AddressError,
    is_allowed,
    read_networks,
    read_url,
    require_allowed,
    resolve,
)
from service.webhooks.webhook_thread import RETRY_S, post
from tests.service.conftest import Open, Service
from tests.service.webhooks.receiver import LOOPBACK, Receiver, hook_of, tell


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver on this machine."""
    with Receiver.open() as one:
        yield one


@pytest.fixture
def open_still(open_service: Open) -> Any:
    """Return a function that opens services which tell nothing by themselves."""
    return lambda: open_service(tick_s=0, webhook_networks=LOOPBACK)


def state_of(service: Service, id_: str) -> dict[str, Any]:
    """Return a webhook as it is shown."""
    body: dict[str, Any] = service.client.get(f"/v1/webhooks/{id_}").get_json()
    return body


def test_what_happens_is_reported_once_and_signed(open_still: Any, receiver: Receiver) -> None:
    """Of the kinds and the tenant asked for, in order, with a signature by the secret."""
    service = open_still()
    hook = hook_of(service, receiver.url, kinds=["accepted", "cancelled"], tenant="ads")
    service.reserve("a", tenant="ads")
    service.reserve("b", tenant="ml")
    service.client.delete("/v1/reservations/a")
    tell(service)
    tell(service)
    assert receiver.told() == [("accepted", "a"), ("cancelled", "a")]
    headers, body = receiver.got[0]
    key = base64.b64decode(hook["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-id"] == json.loads(body)["id"]
    shown = state_of(service, hook["id"])
    assert "secret" not in shown
    assert shown["deliveries"] == {"waiting": 0, "delivered": 2, "dead": 0}


def test_what_is_not_taken_is_tried_again_and_given_up(open_still: Any, receiver: Receiver) -> None:
    """At the pauses of the schedule, under one id; then it is dead and shown, and others go on."""
    service = open_still()
    receiver.status = 500
    hook = hook_of(service, receiver.url, kinds=["accepted"])
    service.reserve("a")
    tell(service)
    tell(service)
    assert len(receiver.got) == 1
    for pause in RETRY_S:
        service.clock.advance(pause - 1)
        tell(service)
        before = len(receiver.got)
        service.clock.advance(1)
        tell(service)
        assert len(receiver.got) == before + 1
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    shown = state_of(service, hook["id"])
    assert shown["deliveries"] == {"waiting": 0, "delivered": 0, "dead": 1}
    (failure,) = shown["failures"]
    assert (failure["state"], failure["error"]) == ("dead", "it answered 500")
    receiver.status = 200
    service.runtime.planner.bring_up_to_date()
    service.reserve("b", "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)")
    tell(service)
    assert receiver.told()[-1] == ("accepted", "b")


def test_nothing_is_lost_with_a_process(open_still: Any, receiver: Receiver) -> None:
    """What one process noted, or did not come to look at, another tells; nothing is told twice."""
    first, second = open_still(), open_still()
    hook_of(first, receiver.url, kinds=["accepted"])
    first.reserve("a")
    first.runtime.webhooks.note()
    first.reserve("b")
    tell(second)
    tell(first)
    assert receiver.told() == [("accepted", "a"), ("accepted", "b")]


def test_what_begins_soon_and_what_begins_late_is_reported(
    open_still: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, however often is looked: before it begins, and where its work does not run."""
    service = open_still()
    hook_of(service, receiver.url, kinds=["starting_soon", "started_late", "ended"], lead=120)
    service.reserve("a", "window(atom(<1 cpu>, 1, 1, 600, 600), +10m, +20m)")
    tell(service)
    assert receiver.told() == []
    service.clock.advance(500)
    tell(service)
    tell(service)
    assert receiver.told() == [("starting_soon", "a")]
    assert json.loads(receiver.got[0][1])["at_at"] == "2026-01-05T00:10:00Z"
    below = b'{"below": ["a"]}'
    monkeypatch.setattr(service.runtime.store.applications, "assignment", lambda: below)
    service.clock.advance(150)
    service.runtime.planner.bring_up_to_date()
    tell(service)
    tell(service)
    assert receiver.told()[1:] == [("started_late", "a")]
    service.clock.advance(1200)
    service.runtime.planner.bring_up_to_date()
    tell(service)
    assert receiver.told()[2:] == [("ended", "a")]


def test_one_can_be_tried_and_deleted(open_still: Any, receiver: Receiver) -> None:
    """A test event comes at once; a deleted webhook is shown nothing more."""
    service = open_still()
    hook = hook_of(service, receiver.url)
    answer = service.client.post(f"/v1/webhooks/{hook['id']}/test")
    assert answer.status_code == 202
    tell(service)
    assert receiver.got[0][0]["webhook-id"] == answer.get_json()["event"]
    assert [one["id"] for one in service.client.get("/v1/webhooks").get_json()["webhooks"]] == [
        hook["id"]
    ]
    assert service.client.delete(f"/v1/webhooks/{hook['id']}").status_code == 204
    assert service.client.get(f"/v1/webhooks/{hook['id']}").status_code == 404
    assert service.client.post(f"/v1/webhooks/{hook['id']}/test").status_code == 404


def test_redirects_are_not_followed(open_still: Any, receiver: Receiver) -> None:
    """Where a receiver sends us was judged by no one."""
    service = open_still()
    receiver.status = 307
    hook = hook_of(service, receiver.url)
    service.client.post(f"/v1/webhooks/{hook['id']}/test")
    tell(service)
    assert state_of(service, hook["id"])["failures"][0]["error"] == "it answered 307"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x",
        "http://[::1]:80/x",
        "http://[::ffff:10.0.0.1]/x",
        "http://localhost/x",
        "http://169.254.169.254/latest",
        "https://192.168.1.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://user:word@example.org/",
        "http://",
        "http://a b/",
        "x",
    ],
)
def test_addresses_of_our_own_are_refused(service: Service, url: str) -> None:
    """Loopback, private and link-local addresses, other schemes, users in a URL: 400."""
    answer = service.client.post("/v1/webhooks", json={"url": url})
    assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "/url")


def test_names_are_judged_by_all_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of which one address is not allowed is shown nothing, whatever the others are."""
    url = read_url("https://example.org/hook")

    def named(*addresses: str) -> None:
        found = [(2, 1, 6, "", (one, 443)) for one in addresses]
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)

    named("8.8.8.8", "10.0.0.1")
    with pytest.raises(AddressError, match=r"10\.0\.0\.1"):
        resolve(url, ())
    assert resolve(url, (ipaddress.ip_network("10.0.0.0/8"),)) == "8.8.8.8"
    named("8.8.8.8")
    assert resolve(url, ()) == "8.8.8.8"
    assert not is_allowed(ipaddress.ip_address("fe80::1"), ())


@pytest.mark.parametrize(
    "inside",
    [
        "::ffff:{0}",
        "::{0}",
        "64:ff9b::{0}",
        "64:ff9b:1::{0}",
        "2002:{1}::",
        "2002:{1}:1::1",
        "2001:0:{1}:0:0:0:1",
        "2001:0:4136:e378:8000:63bf:{2}",
        "2600::5efe:{0}",
        "2600::200:5efe:{0}",
    ],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1"])
def test_an_address_inside_an_ipv6_address_is_judged_too(
    inside: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped, compatible, NAT64, 6to4, Teredo's server and client, ISATAP: typed or resolved."""
    number = int(ipaddress.IPv4Address(address))
    high, low = divmod(number, 1 << 16)
    flipped = divmod(number ^ 0xFFFF_FFFF, 1 << 16)
    written = inside.format(address, f"{high:x}:{low:x}", f"{flipped[0]:x}:{flipped[1]:x}")
    with pytest.raises(AddressError):
        require_allowed(read_url(f"http://[{written}]/"), ())
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(10, 1, 6, "", (written, 80))])
    with pytest.raises(AddressError):
        resolve(read_url("http://example.org/"), ())


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::8.8.8.8", True),
        ("2002:808:808::1", True),
        ("::8.8.8.8", False),
        ("64:ff9b:1::8.8.8.8", False),
        ("fec0::1", False),
        ("fd00::1", False),
        ("ff0e::1", False),
        ("4000::1", False),
        ("2001:db8::1", False),
    ],
)
def test_only_addresses_of_the_public_internet_are_allowed(address: str, allowed: bool) -> None:
    """All others must be in a network that the operator names."""
    read = ipaddress.ip_address(address)
    assert is_allowed(read, ()) is allowed
    assert is_allowed(read, (ipaddress.ip_network(f"{address}/128"),))


def test_a_user_has_webhooks_of_its_tenants_only(service: Service) -> None:
    """It must act for the tenant that is named, and sees no others."""
    user = User("u", Role.USER, frozenset({"ads", "ml"}))
    asked = NewWebhook(url="https://example.org/", kinds=("ended",), lead=0.0)
    every = hook_of(service, "https://example.org/")
    for tenant in (None, "other"):
        with pytest.raises(ApiProblemError, match="tenant"):
            create_webhook(service.runtime, user, replace(asked, tenant=tenant))
    mine = create_webhook(service.runtime, user, replace(asked, tenant="ads"))
    assert [one.id for one in list_webhooks(service.runtime, user).webhooks] == [mine.id]
    with pytest.raises(ApiProblemError, match="no webhook"):
        get_webhook(service.runtime, user, every["id"])
    single = User("v", Role.USER, frozenset({"ml"}))
    assert create_webhook(service.runtime, single, asked).tenant == "ml"


def test_a_delivery_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that sends its answer byte by byte, without end, is left."""
    monkeypatch.setattr("service.webhooks.webhook_thread.TIMEOUT_S", 0.5)
    listening = socket.create_server(("127.0.0.1", 0))
    left = threading.Event()

    def trickle() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            while True:
                connection.sendall(b"H")
                time.sleep(0.02)
        left.set()

    threading.Thread(target=trickle, daemon=True).start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    assert post(url, {}, b"{}", read_networks(LOOPBACK)) == "it did not answer in 0.5 s"
    assert left.wait(300)
    listening.close()

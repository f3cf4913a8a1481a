"""One tenant takes at most half of a limit that all tenants share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from service.access.rate_limit import RateLimit, TenantShares, share_of
from service.access.user import LOCAL_USER, Actor, Role, User, acting
from service.commits.lane import WaitingPlaces
from service.http.gate import Gate
from service.problems import ApiProblemError
from service.store.webhooks import DeliveryRow
from tests.patience import eventually
from tests.service.access.walking import Guarded, guarded
from tests.service.conftest import Open
from tests.service.webhooks.receiver import LOOPBACK, Receiver

ADS = User("ann", Role.USER, frozenset({"ads"}))
WEB = User("olga", Role.USER, frozenset({"web"}))
#: Walkers of two tenants.
_USERS = ("user", "other")

BOTH = User("ben", Role.USER, frozenset({"ads", "web"}))


def test_a_tenant_takes_half_of_the_places() -> None:
    """Users of one tenant share its half; who acts for all may take what there is."""
    places = TenantShares(5)
    assert [places.take(ADS) for _ in range(3)] == [True, True, False]
    assert not places.take(BOTH)
    assert [places.take(WEB), places.take(LOCAL_USER), places.take(LOCAL_USER)] == [True] * 3
    assert not places.take(LOCAL_USER)
    places.give_back(ADS)
    assert [places.take(ADS), places.take(WEB)] == [True, False]
    assert share_of(1) == 1


def test_calls_for_solvers_are_shared() -> None:
    """Half of the threads wait for solvers, and half of these for one tenant."""
    places = WaitingPlaces(8)
    with ExitStack() as held:

        def take(user: User) -> None:
            with acting(Actor(user)):
                held.enter_context(places.holding())

        take(ADS)
        take(ADS)
        with pytest.raises(ApiProblemError, match="too_many"):
            take(ADS)
        take(WEB)
    assert places.take(ADS)


def test_large_requests_are_shared(open_service: Open) -> None:
    """Of eight threads four read large requests, two of these for one tenant; small ones pass."""
    service = open_service(tick_s=0, threads=8)
    gate = Gate(service.runtime, RateLimit(0))
    large, chunked = {"CONTENT_LENGTH": "2000000"}, {"HTTP_TRANSFER_ENCODING": "chunked"}
    with gate.place_for(large, ADS), gate.place_for(chunked, ADS):
        with pytest.raises(ApiProblemError, match="too_many"), gate.place_for(large, ADS):
            pass
        with gate.place_for({"CONTENT_LENGTH": "2000"}, ADS), gate.place_for(large, WEB):
            pass
    with gate.place_for(large, ADS):
        pass


@pytest.fixture
def server(open_service: Open) -> Guarded:
    """Return a service that asks for tokens, feeds few streams, and sends to this machine."""
    return guarded(open_service, tick_s=0, streams=4, webhook_networks=LOOPBACK)


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        ("/v1/webhooks", {"url": "https://example.org/"}, "service.resources.webhooks.MOST"),
    ],
)
def test_rows_of_a_database_are_shared(
    server: Guarded, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, limit: str
) -> None:
    """Of four, one tenant keeps two, and another one finds free capacity for its own."""
    monkeypatch.setattr(limit, 4)
    codes = [[server.call(who, "POST", path, body).status_code for _ in range(3)] for who in _USERS]
    assert codes == [[201, 201, 429]] * 2


def test_streams_are_shared(server: Guarded) -> None:
    """Of four streams one tenant keeps two open; one that ends frees capacity for another."""
    opened = [server.call("user", "GET", "/v1/events") for _ in range(3)]
    assert [one.status_code for one in opened] == [200, 200, 429]
    assert server.call("other", "GET", "/v1/events").status_code == 200
    opened[0].close()
    assert server.call("user", "GET", "/v1/events").status_code == 200


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the URL of a receiver that answers nothing before the end of the test."""
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            release.wait()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    release.set()
    server.shutdown()
    server.server_close()


def test_deliveries_are_shared(server: Guarded, silent: str) -> None:
    """Webhooks of one tenant whose receivers are silent do not keep another tenant waiting."""
    runtime = server.service.runtime
    with Receiver.open() as receiver:
        hooks = [("user", silent)] * 8 + [("other", receiver.url)]
        for who, url in hooks:
            made = server.call(who, "POST", "/v1/webhooks", {"url": url}).get_json()
            assert server.call(who, "POST", f"/v1/webhooks/{made['id']}/test").status_code < 300
        runtime.dispatcher.tick()
        runtime.webhooks.deliver()
        assert eventually(lambda: receiver.got)


def test_a_webhook_for_which_much_waits_leaves_places_to_others(server: Guarded) -> None:
    """What is read to be delivered has something of each webhook."""
    rows = server.service.runtime.store.webhooks
    url = {"url": "https://example.org/"}
    a, b = (server.call(who, "POST", "/v1/webhooks", url).get_json()["id"] for who in _USERS)
    many = [DeliveryRow(a, f"1-{number}", b"{}", number) for number in range(20)]
    rows.note([*many, DeliveryRow(b, "1-99", b"{}", 99)], [])
    due = [(one.webhook, one.event) for one in rows.due(1_000, 5)]
    assert due == [(a, "1-0"), (b, "1-99"), (a, "1-1"), (a, "1-2"), (a, "1-3")]

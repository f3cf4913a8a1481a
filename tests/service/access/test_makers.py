"""Webhooks that were made under a token stop with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from service.access.user import Role, User
from tests.service.access.walking import Guarded, guarded
from tests.service.conftest import Open
from tests.service.webhooks.receiver import LOOPBACK, Receiver

#: What ends the rights of a token, and what is notified of it.
ENDS = {
    "revoked": "the token was revoked",
    "ended": "the token has ended",
}


@dataclass(frozen=True, slots=True)
class Made:
    """A service on which `maker` has a webhook."""

    server: Guarded
    hook: str
    end: Callable[[str], None]

    def tell(self) -> None:
        """Note and deliver, as the process that leads does each second."""
        runtime = self.server.service.runtime
        runtime.dispatcher.tick()
        runtime.webhooks.note()
        runtime.webhooks.deliver()
        runtime.webhooks.wait()

    def shown(self, path: str) -> Any:
        """Return what an admin is shown."""
        return self.server.call("admin", "GET", path).get_json()

    def reserve(self, id_: str) -> None:
        """Reserve something for the maker's tenant."""
        asked = {"id": id_, "rdl": "atom(<1 cpu>, 1, 1, 60, 60)", "tenant": "ads"}
        assert self.server.call("operator", "POST", "/v1/reservations", asked).status_code == 201


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver on this machine."""
    with Receiver.open() as one:
        yield one


@pytest.fixture
def made(open_service: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Return a service on which a user of ads has made a webhook."""
    monkeypatch.setattr("service.store.tokens.FRESH_S", 0.0)
    server = guarded(open_service, tick_s=0, webhook_networks=LOOPBACK)
    runtime, clock = server.service.runtime, server.service.clock
    user = User("maker", Role.USER, frozenset({"ads"}))
    token, secret = runtime.tokens.create(user, clock.now_ms() + 3_600_000, clock.now_ms())
    server.secrets["maker"] = secret

    def end(how: str) -> None:
        if how == "ended":
            clock.advance(3_601)
        else:
            runtime.tokens.revoke(token.id, clock.now_ms())

    body = {"url": receiver.url, "kinds": ["accepted"]}
    hook = server.call("maker", "POST", "/v1/webhooks", body).get_json()
    assert hook["stopped"] is None
    return Made(server, f"/v1/webhooks/{hook['id']}", end)


@pytest.mark.parametrize("how", ["revoked", "ended"])
def test_a_webhook_stops_with_the_token_of_its_maker(
    made: Made, receiver: Receiver, how: str
) -> None:
    """What waited is given up with the reason, what comes is not noted, and the reason is shown."""
    receiver.status = 500
    made.reserve("a")
    made.tell()
    assert len(receiver.got) == 1
    receiver.status = 204
    made.end(how)
    made.reserve("b")
    made.server.service.clock.advance(60)
    made.tell()
    assert len(receiver.got) == 1
    shown = made.shown(made.hook)
    assert shown["stopped"] == f"its creator is no longer authorised: {ENDS[how]}"
    assert shown["deliveries"] == {"waiting": 0, "delivered": 0, "dead": 1}
    assert shown["failures"][0]["error"] == shown["stopped"]


def test_other_tokens_carry_on_what_they_made(made: Made, receiver: Receiver) -> None:
    """An operator's webhook is notified on when a user's has stopped."""
    body = {"url": receiver.url, "kinds": ["accepted"]}
    hook = made.server.call("operator", "POST", "/v1/webhooks", body).get_json()
    made.end("revoked")
    made.reserve("a")
    made.tell()
    assert receiver.told() == [("accepted", "a")]
    assert made.shown(f"/v1/webhooks/{hook['id']}")["stopped"] is None


def test_who_has_another_tenant_now_hears_no_more_of_the_first(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a proxy names the user, the token of the name that is good says what it acts for."""
    monkeypatch.setattr("service.store.tokens.FRESH_S", 0.0)
    server = guarded(open_service, tick_s=0, trusted_header="X-Remote-User", proxies=("127.0.0.1",))
    runtime, clock = server.service.runtime, server.service.clock
    named = {"X_Remote_User": "pia"}

    def token_for(tenant: str, instead: str = "") -> str:
        clock.advance(2)
        if instead:
            runtime.tokens.revoke(instead, clock.now_ms())
        user = User("pia", Role.USER, frozenset({tenant}))
        return runtime.tokens.create(user, None, clock.now_ms())[0].id

    def stopped() -> Any:
        return server.call("admin", "GET", "/v1/webhooks").get_json()["webhooks"][0]["stopped"]

    first = token_for("ads")
    body = {"url": "https://example.org/"}
    assert server.call(None, "POST", "/v1/webhooks", body, **named).status_code == 201
    assert stopped() is None
    second = token_for("web", first)
    assert stopped() == "its creator no longer acts for its tenant"
    token_for("ads", second)
    assert stopped() is None


def test_a_look_at_the_maker_is_no_use_of_its_token(made: Made) -> None:
    """The last use of a token is its bearer's, not that of what it has made."""
    runtime, clock = made.server.service.runtime, made.server.service.clock
    (before,) = (one.used_ms for one in runtime.tokens.all() if one.user.name == "maker")
    clock.advance(3_000)
    made.tell()
    (after,) = (one.used_ms for one in runtime.tokens.all() if one.user.name == "maker")
    assert before == after

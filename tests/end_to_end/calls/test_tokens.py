"""A real server of two processes that asks for tokens."""

from __future__ import annotations

from pathlib import Path

from service.access.user import Role, User
from service.clock import SystemClock
from service.store import Store
from tests.end_to_end.server_process import Client, serving
from tests.patience import eventually
from tests.service.conftest import CLUSTER

ATOM = "atom(<1 cpu>, 1, 1, 60, 60)"


def test_tokens_on_kept_connections_and_in_every_process(tmp_path: Path) -> None:
    """A refused body leaves its connection whole; a revoked token is soon good in no process."""
    store, now_ms = Store(f"sqlite:///{tmp_path / 'agenda.db'}"), SystemClock().now_ms()
    store.tokens.create(User("ada", Role.ADMIN), None, now_ms)
    token, secret = store.tokens.create(User("ann", Role.USER, frozenset({"ads"})), None, now_ms)
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    shown = {"Authorization": f"Bearer {secret}"}
    with serving(tmp_path / "agenda.db", cluster, workers=2, auth="token") as server:
        clients = [Client(server.port) for _ in range(8)]
        for number, client in enumerate(clients):
            asked = {"id": f"r{number}", "rdl": ATOM}
            assert client.call("POST", "/v1/reservations", asked)[0] == 401
            assert client.call("POST", "/v1/reservations?dry_run=false", asked)[0] == 401
            assert client.call("POST", "/v1/reservations", asked, shown)[0] == 201
        store.tokens.revoke(token.id, now_ms)
        eventually(
            lambda: {one.call("GET", "/v1/cluster", None, shown)[0] for one in clients} == {401}
        )
    store.close()

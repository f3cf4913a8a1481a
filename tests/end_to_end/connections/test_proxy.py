"""The proxies of docs/operating.md: the real ones with those configurations and a certificate."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from service.access.user import Role, User
from service.cli.server_process import free_port
from service.clock import SystemClock
from service.store import Store
from tests.docs.pages import ROOT, blocks_of
from tests.end_to_end.server_process import serving
from tests.patience import eventually

pytestmark = pytest.mark.proxy

NGINX = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin")
CADDY = shutil.which("caddy")
NAME = "agenda.example"
ATOM = "atom(<1 cpu>, 1, 1, 60, 60)"
CLUSTER = """
step = "60s"
horizon = "4h"
[[machines]]
name = "plain"
count = 10
resources = { cpu = 1 }
"""


@dataclass(frozen=True, slots=True)
class Proxied:
    """A server behind a proxy.

    Attributes
    ----------
    port
        Of the proxy.
    certificate
        What clients trust.
    user, operator
        Tokens.
    """

    port: int
    certificate: Path
    user: str
    operator: str

    def call(
        self, method: str, path: str, token: str | None, body: Any = None, **headers: str
    ) -> tuple[int, bytes]:
        """Make a call over TLS, whose certificate and name are checked."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        connection = HTTPSConnection("127.0.0.1", self.port, context=context, timeout=300)
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=300)
        connection.sock = context.wrap_socket(raw, server_hostname=NAME)
        sent = {"Host": NAME, "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = None if body is None else msgspec.json.encode(body)
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read()
        finally:
            connection.close()


def _certificate(folder: Path) -> None:
    made = folder / "agenda.pem", folder / "agenda.key"
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}",
        "-out", str(made[0]), "-keyout", str(made[1]),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)


def _recipe(language: str, replaced: Mapping[str, str]) -> str:
    """Return the configuration that the page prints, with ports and files of a test."""
    page = ROOT / "docs" / "operating.md"
    (block,) = [one for one in blocks_of(page) if one.language == language]
    text = "\n".join(block.lines)
    for written, here in replaced.items():
        assert written in text
        text = text.replace(written, here)
    return text


def _nginx(folder: Path, port: int, upstream: int, user: str) -> list[str]:
    """Write nginx's configuration; return the command that runs it."""
    assert NGINX is not None
    text = _recipe("nginx", {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "http://127.0.0.1:8080": f"http://127.0.0.1:{upstream}",
        "/etc/ssl/agenda.pem": str(folder / "agenda.pem"),
        "/etc/ssl/agenda.key": str(folder / "agenda.key"),
        'X-Remote-User ""': f'X-Remote-User "{user}"',
    })  # fmt: skip
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = folder / "nginx.conf"
    # Its processes are to write into a folder that is ours alone.
    own = f"user {getpass.getuser()};" if os.geteuid() == 0 else ""
    main.write_text(
        f"{own} daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; {places}\n{text}\n}}\n"
    )
    return [NGINX, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(main)]


def _caddy(folder: Path, port: int, upstream: int, user: str) -> list[str]:
    """Write Caddy's configuration; return the command that runs it."""
    assert CADDY is not None
    text = _recipe("caddy", {
        "agenda.example {": f"https://agenda.example:{port} {{\n    bind 127.0.0.1",
        "127.0.0.1:8080": f"127.0.0.1:{upstream}",
        "/etc/ssl/agenda.pem": str(folder / "agenda.pem"),
        "/etc/ssl/agenda.key": str(folder / "agenda.key"),
        "header_up -X-Remote-User": f"header_up X-Remote-User {user}"
        if user else "header_up -X-Remote-User",
    })  # fmt: skip
    main = folder / "Caddyfile"
    apart = f"admin off\nauto_https disable_redirects\nstorage file_system {folder}"
    main.write_text(f"{{\n{apart}\n}}\n{text}\n")
    return [CADDY, "run", "--adapter", "caddyfile", "--config", str(main)]


#: Each proxy: its program, and what writes its configuration.
PROXIES: Final = {"nginx": (NGINX, _nginx), "caddy": (CADDY, _caddy)}


@contextmanager
def _running(kind: str, folder: Path, upstream: int, user: str) -> Iterator[int]:
    """Run a proxy with the configuration that the page prints."""
    port = free_port()
    _certificate(folder)
    command = PROXIES[kind][1](folder, port, upstream, user)
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(listens)
        yield port
    finally:
        process.terminate()
        process.wait(300)


@contextmanager
def proxied(kind: str, folder: Path, user: str = "", **settings: Any) -> Iterator[Proxied]:
    """Run a server that asks for tokens, behind a proxy; `user` is whom that names."""
    if PROXIES[kind][0] is None or shutil.which("openssl") is None:
        pytest.skip(f"Debian's {kind} and openssl are not here")
    url = f"sqlite:///{folder / 'agenda.db'}"
    store, now_ms = Store(url), SystemClock().now_ms()
    tokens = [
        store.tokens.create(one, None, now_ms)[1]
        for one in (
            User("ann", Role.USER, frozenset({"ads"})),
            User("otto", Role.OPERATOR),
            User("ada", Role.ADMIN),
        )
    ]
    store.close()
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    more: dict[str, Any] = {"auth": "token", "names": [NAME], "proxies": ["127.0.0.1"], **settings}
    with (
        serving(folder / "agenda.db", cluster, **more) as server,
        _running(kind, folder, server.port, user) as port,
    ):
        yield Proxied(port, folder / "agenda.pem", tokens[0], tokens[1])


each_proxy = pytest.mark.parametrize("kind", sorted(PROXIES))


@each_proxy
def test_calls_over_tls(kind: str, tmp_path: Path) -> None:
    """Posts, reads, refusals and streams come through as they are; the audit has the client."""
    with proxied(kind, tmp_path) as server:
        asked = {"id": "a", "rdl": ATOM}
        assert server.call("POST", "/v1/reservations", server.user, asked)[0] == 201
        assert server.call("GET", "/v1/reservations/a", server.user)[0] == 200
        assert server.call("GET", "/v1/reservations/a", None)[0] == 401
        assert server.call("GET", "/v1/audit", server.user)[0] == 403
        foreign = server.call("GET", "/v1/plan", server.user, Host="evil.example")
        assert foreign[0] == 421 or foreign == (200, b"")  # Caddy knows no such site
        page = [{"rdl": ATOM}] * 2_000
        status, body = server.call("POST", "/v1/reservations:batch", server.user, page)
        assert (status, len(msgspec.json.decode(body)["results"])) == (200, 2_000)
        origin = {"Origin": f"https://{NAME}"}
        assert server.call("POST", "/v1/rdl/check", server.user, asked["id"], **origin)[0] == 400

        forged = {"X_Forwarded_For": "192.0.2.66"}
        server.call("DELETE", "/v1/reservations/a", server.user, **forged)
        _, body = server.call("GET", "/v1/audit?about=a", server.operator)
        assert {one["address"] for one in msgspec.json.decode(body)["changes"]} == {"127.0.0.1"}


@each_proxy
def test_a_client_cannot_name_itself(kind: str, tmp_path: Path) -> None:
    """Where the proxy names no one, a header of the client is taken away: it is no one."""
    with proxied(kind, tmp_path, trusted_header="X-Remote-User") as server:
        status, _ = server.call("GET", "/v1/plan", None, X_Remote_User="ada")
        assert status == 401


@each_proxy
def test_the_proxy_names_the_user(kind: str, tmp_path: Path) -> None:
    """The user of the header acts by the rights of its token, whatever the client sends."""
    with proxied(kind, tmp_path, user="ann", trusted_header="X-Remote-User") as server:
        status, body = server.call(
            "POST", "/v1/reservations", None, {"id": "a", "rdl": ATOM}, X_Remote_User="ada"
        )
        assert (status, msgspec.json.decode(body)["tenant"]) == (201, "ads")
        assert server.call("GET", "/v1/tokens", None, X_Remote_User="ada")[0] == 403
        _, body = server.call("GET", "/v1/audit?about=a", server.operator)
        assert re.search(rb'"user":"ann"', body)

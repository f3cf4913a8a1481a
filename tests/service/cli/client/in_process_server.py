"""The command line's server, answered by the service of a test."""

from __future__ import annotations

from typing import Any

import pytest

from service.cli.kit.server import Server, ServerReply
from tests.service.conftest import Service


class InProcessServer(Server):
    """A server that is asked without a socket."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        object.__setattr__(self, "service", service)

    def call(
        self, method: str, path: str, body: object = None, query: Any = None, headers: Any = None
    ) -> ServerReply:
        """Ask the service of the test."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        answer = self.service.client.open(  # type: ignore[attr-defined]
            path, method=method, json=body, query_string=given, headers=headers
        )
        return ServerReply(answer.status_code, answer.get_json(silent=True))

    def once(self, path: str, body: object, query: Any = None, key: Any = None) -> ServerReply:
        """Post a change."""
        return self.call("POST", path, body, query)


def let_commands_ask(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer every call of every command by the service of a test."""
    server = InProcessServer(service)
    for call in ("call", "once"):
        ask = getattr(server, call)
        monkeypatch.setattr(Server, call, lambda _, *given, ask=ask, **named: ask(*given, **named))

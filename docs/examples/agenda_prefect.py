"""A Prefect block for an Agenda server, and tasks that reserve machines and wait for them.

Copy this file next to your flows. It needs ``cluster-agenda-client``.
"""

from __future__ import annotations

from prefect import task
from prefect.blocks.core import Block
from pydantic import SecretStr

import agenda


class AgendaServer(Block):
    """Where an Agenda server is, and the token that it asks for."""

    _block_type_name = "Agenda server"

    url: str = "http://127.0.0.1:8080"
    token: SecretStr | None = None

    def client(self) -> agenda.Client:
        """Return a client of the server."""
        return agenda.Client(self.url, self.token.get_secret_value() if self.token else None)


@task
def reserve(server: AgendaServer, rdl: str, key: str) -> str:
    """Ask for a reservation and return its id; a retry with the same key returns the same id."""
    return server.client().submit(rdl, key=key).id


@task
def await_begin(server: AgendaServer, reservation: str, timeout_s: float = 86400.0) -> str:
    """Wait until a reservation has begun; return its state."""
    return server.client().wait(reservation, "begun", timeout_s=timeout_s).state

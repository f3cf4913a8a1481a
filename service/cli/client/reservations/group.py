"""`agenda reservations VERB`: the verbs."""

from __future__ import annotations

from typing import Final

import click

from service.cli.terminal.command_group import LazyCommand, LazyGroup

_VERBS: Final = (
    LazyCommand(
        "list",
        "service.cli.client.reservations.reservations:list_",
        "List reservations and refusals.",
    ),
    LazyCommand(
        "show",
        "service.cli.client.reservations.reservations:show",
        "Show one and its allocation, or why it was refused.",
    ),
    LazyCommand(
        "submit",
        "service.cli.client.reservations.reservations:submit",
        "Ask a server for reservations.",
    ),
    LazyCommand(
        "update",
        "service.cli.client.reservations.update:update",
        "Ask for another request in the place of one that stands.",
    ),
    LazyCommand(
        "cancel",
        "service.cli.client.reservations.reservations:cancel",
        "Give one up: its future is given back, its past is kept.",
    ),
    LazyCommand(
        "wait", "service.cli.client.events.follow:wait", "Wait until one has begun or ended."
    ),
    LazyCommand(
        "watch",
        "service.cli.client.events.follow:watch",
        "Print what happens to one, or to all.",
    ),
)


@click.group(cls=LazyGroup, parts=_VERBS)
def reservations() -> None:
    """Ask for reservations of a server, follow, change and cancel them.

    `agenda submit` is short for `agenda reservations submit`.
    """

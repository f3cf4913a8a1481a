"""`agenda dispatch policy`: show how a server serves work without a reservation, and change it."""

from __future__ import annotations

from typing import Any, Final

import click

from planner.cluster.dispatch_policy import (
    ALLOCATIONS,
    GROWTHS,
    ORDERS,
    PLACEMENTS,
    complete_words,
)
from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    print_json,
    print_table,
    print_title,
)

_PATH: Final = "/v1/dispatch/policy"


@click.group()
def dispatch() -> None:
    """Show and change how a server serves work without a reservation."""


@dispatch.command()
@client_options
@click.option("--order", type=click.Choice(ORDERS), help="Who goes first of equal priority.")
@click.option(
    "--by-priority/--no-by-priority", default=None, help="Let a higher priority go first."
)
@click.option(
    "--interactive-first/--no-interactive-first",
    default=None,
    help="Let interactive go before batch of equal priority.",
)
@click.option(
    "--preempt/--no-preempt",
    default=None,
    help="Let who goes first take elastic components of others at once.",
)
@click.option(
    "--allocation", type=click.Choice(ALLOCATIONS), help="How elastic components are granted."
)
@click.option(
    "--reclaim/--no-reclaim",
    default=None,
    help="Take elastic components back so that cores can start.",
)
@click.option("--placement", type=click.Choice(PLACEMENTS), help="How machines are chosen.")
@click.option("--tables/--no-tables", default=None, help="Make dispatch tables (LoTES).")
@click.option(
    "--allow-start/--no-allow-start",
    default=None,
    help="Let requests hold leases longer by what work of their size waits for its start.",
)
@click.option(
    "--grow",
    type=click.Choice(GROWTHS),
    help="How far components with a `grow` use what is idle.",
)
@click.option(
    "--grow-below",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Of global_cap: grow while less than this share of the machines is held.",
)
@click.option(
    "--grow-times",
    type=click.IntRange(1),
    metavar="N",
    help="Of relative_size: grow to N times what was asked for.",
)
@click.option(
    "--spare",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Keep as many machines free of promises as were lost at once at most in this share of "
    "the time; 0: none.",
)
@format_option(TABLE, JSON)
@reports_errors
def policy(server: Server, form: str, **options: Any) -> int:
    """Show the dispatch policy of a server; with options, change these words of it first.

    A change counts from the server's next tick; cores that run stay. It fails where somebody else
    has changed the cluster's description meanwhile.
    """
    words = {name: value for name, value in options.items() if value is not None}
    reply = server.call("GET", _PATH)
    found = reply.good()
    if words:
        seen = {} if reply.tag is None else {"If-Match": reply.tag}
        found = server.call("PUT", _PATH, found | complete_words(words), headers=seen).good()
    if form == JSON:
        print_json(found)
    else:
        print_title("dispatch policy: how work is served")
        print_table(("word", "value"), [[name, _text(value)] for name, value in found.items()])
    return DONE


def _text(value: object) -> str:
    """Return a value as the cluster file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""`agenda serve`: the service, by gunicorn."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.errors import reports_errors
from service.cli.options import READABLE, FiniteRange, agent_name


@click.command()
@click.option(
    "--database",
    default="sqlite:///agenda.db",
    show_default=True,
    help="URL of the database that keeps the Plan.",
)
@click.option(
    "--cluster",
    type=READABLE,
    help="Cluster file; needed at the first start. A changed file is taken over at a later start.",
)
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; only addresses of this machine are allowed.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="Port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--name", "names", multiple=True, metavar="HOST",
              help="Also answer requests to this host name; may be repeated.")  # fmt: skip
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of server processes.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="Threads in each process.",
)
@click.option("--agent", type=agent_name, metavar="AGENT", default="gree-l", show_default=True,
              help="Agent that places requests which name none.")  # fmt: skip
@click.option("--agent-time", "agent_s", type=FiniteRange(min=0.1, max=50), default=10.0,
              show_default=True, metavar="SECONDS",
              help="Longest time a solver or portfolio may take for one commit.")  # fmt: skip
@click.option(
    "--takeover",
    "takeover_s",
    type=FiniteRange(min=4),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds without a sign of life from the dispatching worker after which another "
    "takes over.",
)
@click.option("--webhook-network", "webhook_networks", multiple=True, metavar="NETWORK",
              help="Let webhooks be in this network, such as 10.0.0.0/8; repeatable.")  # fmt: skip
@click.option(
    "--skip-record",
    "skip_records",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="VERSION",
    help="Start without the change of this record, which cannot be applied; may be repeated.",
)
@reports_errors
def serve(
    database: str,
    cluster: Path | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    workers: int,
    threads: int,
    agent: str,
    agent_s: float,
    takeover_s: float,
    skip_records: tuple[int, ...],
    webhook_networks: tuple[str, ...],
) -> None:
    """Serve the HTTP API until stopped; the Plan survives in the database."""
    from service.config import ServiceConfig
    from service.server import run

    run(
        ServiceConfig(
            database=database,
            cluster=cluster,
            host=host,
            port=port,
            names=names,
            workers=workers,
            threads=threads,
            agent=agent,
            agent_s=agent_s,
            takeover_s=takeover_s,
            skip_records=skip_records,
            webhook_networks=webhook_networks,
        )
    )

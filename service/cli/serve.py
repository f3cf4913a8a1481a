"""`agenda serve`: the service, by gunicorn."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.errors import reports_errors
from service.cli.options import READABLE, FiniteRange, agent_name


@click.command()
@click.option(
    "--database", default="sqlite:///agenda.db", show_default=True, help="Where the Plan is kept."
)
@click.option("--cluster", type=READABLE, help="Cluster file; needed at the first start.")
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Where to listen: an address of this machine only.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--name", "names", multiple=True, metavar="HOST",
              help="Answer under this name too (header Host); may be repeated.")  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Server processes."
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=16, show_default=True, help="Threads in each."
)
@click.option("--agent", type=agent_name, default="gree-l", show_default=True,
              help="Who places requests that name no agent.")  # fmt: skip
@click.option("--agent-time", "agent_s", type=FiniteRange(min=0.1, max=50), default=10.0,
              show_default=True, metavar="SECONDS",
              help="Longest that a solver or portfolio may take for one commit.")  # fmt: skip
@click.option("--takeover", "takeover_s", type=FiniteRange(min=4), default=10.0,
              show_default=True, metavar="SECONDS",
              help="Silence of the process that dispatches after which another does.")  # fmt: skip
@click.option("--skip-record", "skip_records", type=click.IntRange(min=1), multiple=True,
              metavar="VERSION",
              help="Start without what a record changed that cannot be applied; may be repeated."
              )  # fmt: skip
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
        )
    )

"""`agenda serve`: the service, by gunicorn."""

from __future__ import annotations

from pathlib import Path

import click

from planner.agents import DEFAULT_AGENT
from service.cli.kit.errors import reports_errors
from service.cli.kit.options import READABLE, FiniteRange, agent_name, dask_option


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
              help="Address to listen on; any but loopback needs --auth token.")  # fmt: skip
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
@click.option("--agent", type=agent_name, metavar="AGENT", default=DEFAULT_AGENT, show_default=True,
              help="Agent that places requests which name none.")  # fmt: skip
@click.option("--agent-time", "agent_s", type=FiniteRange(min=0.1, max=50), default=10.0,
              show_default=True, metavar="SECONDS",
              help="Longest time a solver or portfolio may take for one commit.")  # fmt: skip
@click.option(
    "--takeover",
    "takeover_s",
    type=FiniteRange(min=4),
    default=8.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds without a sign of life from the dispatching worker after which another "
    "takes over.",
)
@click.option("--executors", is_flag=True,
              help="Run components on executors; else they run in memory only.")  # fmt: skip
@click.option("--executor-lease", "lease_s", type=FiniteRange(min=2, max=86_400), default=30.0,
              show_default=True, metavar="SECONDS",
              help="Seconds of silence after which an executor is lost.")  # fmt: skip
@click.option("--slurm", type=READABLE, metavar="FILE",
              help="Run components as jobs of the Slurm that FILE describes.")  # fmt: skip
@click.option(
    "--ended-days",
    type=FiniteRange(min=0.0001),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="How long reservations that have ended stay in the Plan, in days; then they are archived.",
)
@click.option(
    "--archive-days",
    type=click.IntRange(min=1),
    default=730,
    show_default=True,
    help="How long the archive keeps them after that, in days.",
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
@click.option(
    "--auth",
    type=click.Choice(["none", "token"]),
    default="none",
    show_default=True,
    help="Whether every call must show a token; `agenda token create` makes them.",
)
@click.option("--proxy", "proxies", multiple=True, metavar="ADDRESS",
              help="Address of a proxy whose X-Forwarded-For is believed; may be "
              "repeated.")  # fmt: skip
@click.option("--trusted-header", metavar="NAME",
              help="Header in which a --proxy names the user, such as X-Remote-User. "
              "[default: none]")  # fmt: skip
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines of the log: text, or one JSON object each.",
)
@click.option("--rate", type=FiniteRange(min=0), default=200.0, show_default=True,
              metavar="CALLS", help="Calls a second that one user may make of a server, "
              "with --auth token; 0: any number.")  # fmt: skip
@click.option("--tenant-waiting", type=click.IntRange(min=1), default=50_000, show_default=True,
              metavar="N", help="Requests of one tenant that may wait to be planned in a "
              "server.")  # fmt: skip
@dask_option("optimisations and comparisons")
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
    executors: bool,
    lease_s: float,
    slurm: Path | None,
    ended_days: float,
    archive_days: int,
    skip_records: tuple[int, ...],
    auth: str,
    proxies: tuple[str, ...],
    trusted_header: str | None,
    log_format: str,
    rate: float,
    tenant_waiting: int,
    webhook_networks: tuple[str, ...],
    dask: str | None,
) -> None:
    """Serve the HTTP API until stopped; the Plan survives in the database."""
    from service.config import ServiceConfig
    from service.server import run

    if dask is not None:
        from service.jobs.dask_workers import require_dask

        require_dask(dask)
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
            ended_days=ended_days,
            archive_days=archive_days,
            skip_records=skip_records,
            executors=executors,
            lease_s=lease_s,
            slurm=slurm,
            auth=auth,
            proxies=proxies,
            trusted_header=trusted_header,
            log_format=log_format,
            rate=rate,
            tenant_waiting=tenant_waiting,
            webhook_networks=webhook_networks,
            dask=dask,
        )
    )

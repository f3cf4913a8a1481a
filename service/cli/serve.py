"""`agenda serve`: run the service under gunicorn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from planner.agents import DEFAULT_AGENT
from service.cli.kit.commands import server_command
from service.cli.kit.errors import CliError
from service.cli.kit.options import (
    READABLE,
    FiniteRange,
    agent_name,
    dask_option,
    mount_option,
    option_group,
)
from service.config import ServiceConfig


def _config_of(**given: Any) -> ServiceConfig:
    """Return the settings of the options: local components run on an executor."""
    return ServiceConfig(**{**given, "executors": given["executors"] or given["local"] is not None})


@server_command(
    None,
    "serve",
    option_group(
        "config",
        _config_of,
        click.option(
            "--database",
            default="sqlite:///agenda.db",
            show_default=True,
            help="URL of the database that keeps the Plan.",
        ),
        click.option(
            "--cluster",
            type=READABLE,
            help="Cluster file; needed at the first start. A later start applies changes of the "
            "file.",
        ),
        click.option(
            "--host",
            default="127.0.0.1",
            show_default=True,
            help="Address to listen on; all but loopback need --auth token.",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=8080,
            show_default=True,
            help="Port to listen on; 0 takes a free one.",
        ),
        click.option(
            "--name",
            "names",
            multiple=True,
            metavar="HOST",
            help="Also answer requests to this host name; may be repeated.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="Number of server processes.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            default=16,
            show_default=True,
            help="Threads in each process.",
        ),
        click.option(
            "--agent",
            type=agent_name,
            metavar="AGENT",
            default=DEFAULT_AGENT,
            show_default=True,
            help="Agent for requests that name none.",
        ),
        click.option(
            "--agent-time",
            "agent_s",
            type=FiniteRange(min=0.1, max=50),
            default=10.0,
            show_default=True,
            metavar="SECONDS",
            help="Time limit of a solver or portfolio for one commit.",
        ),
        click.option(
            "--takeover",
            "takeover_s",
            type=FiniteRange(min=4),
            default=8.0,
            show_default=True,
            metavar="SECONDS",
            help="Seconds without a heartbeat of the dispatching worker after which another "
            "takes over.",
        ),
        click.option(
            "--executors",
            is_flag=True,
            help="Run components on executors. [default: in memory only]",
        ),
        click.option(
            "--local",
            is_flag=False,
            flag_value="agenda-local",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Run components as processes of this host, of which FOLDER keeps the output; "
            "agenda-local where none is given. On loopback only.",
        ),
        mount_option,
        click.option(
            "--executor-lease",
            "lease_s",
            type=FiniteRange(min=2, max=86_400),
            default=30.0,
            show_default=True,
            metavar="SECONDS",
            help="Seconds of silence after which an executor is lost.",
        ),
        click.option(
            "--slurm",
            type=READABLE,
            metavar="FILE",
            help="Run components as jobs of the Slurm that FILE describes.",
        ),
        click.option(
            "--kubernetes",
            metavar="FILE",
            help="Promise and release the Jobs of the Kubernetes cluster of this kubeconfig, or of "
            "the one in which the server is a pod: in-cluster.",
        ),
        click.option(
            "--ended-days",
            type=FiniteRange(min=0.0001),
            default=7.0,
            show_default=True,
            metavar="DAYS",
            help="How long reservations that have ended stay in the Plan, in days; then they are "
            "archived.",
        ),
        click.option(
            "--archive-days",
            type=click.IntRange(min=1),
            default=730,
            show_default=True,
            help="How long the archive keeps them after that, in days.",
        ),
        click.option(
            "--webhook-network",
            "webhook_networks",
            multiple=True,
            metavar="NETWORK",
            help="Allow webhooks in this network, such as 10.0.0.0/8; may be repeated.",
        ),
        click.option(
            "--skip-record",
            "skip_records",
            type=click.IntRange(min=1),
            multiple=True,
            metavar="VERSION",
            help="Start without the change of this record, which cannot be applied; may be "
            "repeated.",
        ),
        click.option(
            "--auth",
            type=click.Choice(["none", "token"]),
            default="none",
            show_default=True,
            help="Whether every call needs a token; `agenda token create` creates them.",
        ),
        click.option(
            "--munge",
            metavar="SOCKET",
            help="With --auth token, also accept credentials that munged at this socket decodes, "
            "such as /run/munge/munge.socket.2. [default: none]",
        ),
        click.option(
            "--proxy",
            "proxies",
            multiple=True,
            metavar="ADDRESS",
            help="Address of a proxy whose X-Forwarded-For is trusted; may be repeated.",
        ),
        click.option(
            "--trusted-header",
            metavar="NAME",
            help="Header in which a --proxy names the user, such as X-Remote-User. [default: none]",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Lines of the log: text, or one JSON object each.",
        ),
        click.option(
            "--rate",
            type=FiniteRange(min=0),
            default=200.0,
            show_default=True,
            metavar="CALLS",
            help="Limit of one user's calls per second to a server, "
            "with --auth token; 0: no limit.",
        ),
        click.option(
            "--tenant-waiting",
            type=click.IntRange(min=1),
            default=50_000,
            show_default=True,
            metavar="N",
            help="Limit of one tenant's requests that wait to be planned in a server.",
        ),
        dask_option("optimisations and comparisons"),
    ),
    forms=(),
    offline=True,
)
def serve(config: ServiceConfig) -> None:
    """Serve the HTTP API until stopped; the Plan survives in the database."""
    from service.server import run

    if config.local is not None and config.port == 0:
        raise CliError("--local needs a --port: its executor has to know it")
    if config.dask is not None:
        from service.jobs.dask_workers import require_dask

        require_dask(config.dask)
    run(config)

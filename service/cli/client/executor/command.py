"""`agenda executor`: run components on this machine."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from pathlib import Path

import click

from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.options import FiniteRange


@click.command()
@client_options
@click.option("--machine", "machines", multiple=True, required=True, metavar="NAME",
              help="Machine of the cluster that this one is; may be repeated.")  # fmt: skip
@click.option("--id", "name", default=None, metavar="NAME",
              help="Name of the executor; the name of this host when absent.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), default=Path("agenda-executor"),
              show_default=True, help="Directory of runs, with output and exit codes.")  # fmt: skip
@click.option("--every", type=FiniteRange(min=0.05, max=60), default=1.0, show_default=True,
              metavar="SECONDS", help="Pause between two reports.")  # fmt: skip
@click.option("--stop-grace", type=FiniteRange(min=0, max=600), default=5.0, show_default=True,
              metavar="SECONDS", help="Time between SIGTERM and SIGKILL.")  # fmt: skip
@click.option("--limit-memory", is_flag=True,
              help="Hold each process to the memory that its component asked for.")  # fmt: skip
@reports_errors
def executor(
    server: Server,
    machines: tuple[str, ...],
    name: str | None,
    state: Path,
    every: float,
    stop_grace: float,
    limit_memory: bool,
) -> None:
    """Run components as processes of this machine, until stopped.

    What runs goes on when this command ends, until the server's lease is over; start it again with
    the same --state to take it over.
    """
    from service.cli.client.executor.agent import ExecutorAgent
    from service.cli.client.executor.run_directory import RunLimits

    if sys.platform != "linux":
        raise CliError("the executor needs Linux")
    limits = RunLimits(limit_memory, stop_grace)
    agent = ExecutorAgent(
        server, name or socket.gethostname(), machines, state.resolve(), limits, every
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.is_set():
        agent.turn()
        ended.wait(every)

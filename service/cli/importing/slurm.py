"""`agenda import slurm`: a running Slurm as a cluster file, and what ties a server to it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from service.cli.importing.options import whole_seconds
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.options import WRITABLE, duration


@click.command()
@click.option("--promised", required=True, metavar="PARTITION",
              help="Partition of promised work; its tier is above the other's.")  # fmt: skip
@click.option("--best-effort", required=True, metavar="PARTITION",
              help="Partition of work that may be preempted.")  # fmt: skip
@click.option("--cluster-out", type=WRITABLE, required=True, help="Write the cluster file here.")
@click.option("--settings-out", type=WRITABLE, required=True,
              help="Write the file for `agenda serve --slurm` here.")  # fmt: skip
@click.option("--prefix", default="agenda", show_default=True,
              help="What names of Agenda's jobs and reservations begin with.")  # fmt: skip
@click.option("--step", type=duration, default="60s", show_default=True, help="Step of the grid.")
@click.option("--horizon", type=duration, default="14d", show_default=True,
              help="How far ahead is planned.")  # fmt: skip
@click.option("--jobs/--no-jobs", default=True, show_default=True,
              help="Whether nodes are away until jobs of others there end.")  # fmt: skip
@reports_errors
def slurm(
    promised: str,
    best_effort: str,
    cluster_out: Path,
    settings_out: Path,
    prefix: str,
    step: int,
    horizon: int,
    jobs: bool,
) -> None:
    """Read a Slurm by its own commands: nodes, reservations, maintenance and running jobs.

    Where the files are there already, nodes keep their machines, new ones come after them, and the
    Plan its origin; all else that the cluster file had is lost.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.errors import SlurmError
    from service.importers.slurm_cluster import SlurmModel, SlurmView, import_slurm

    commands = SlurmCommands()
    try:
        model = SlurmModel(
            promised, best_effort, prefix, whole_seconds(step), whole_seconds(horizon), jobs,
            _known(settings_out), _origin_s(cluster_out),
        )  # fmt: skip
        view = SlurmView(
            commands.nodes(), commands.reservations(), commands.jobs(), int(time.time())
        )
        found = import_slurm(view, model)
    except (SlurmError, ValueError) as error:
        raise CliError(str(error)) from error
    cluster_out.write_text(found.cluster)
    settings_out.write_text(found.settings)
    click.echo(f"{len(found.machines)} nodes, {found.outages} outages", err=True)
    if found.endless:
        shown = ", ".join(map(str, found.endless[:5]))
        click.echo(
            f"{len(found.endless)} jobs have no time limit and count to the horizon: {shown}",
            err=True,
        )


def _known(path: Path) -> dict[str, str]:
    """Return the machine of each node of a settings file; none where there is no such file."""
    from dispatch.backends.slurm.control.settings import read_settings

    if not path.exists() or not path.stat().st_size:
        return {}
    return {node: machine for machine, node in read_settings(path).machines.items()}


def _origin_s(path: Path) -> int | None:
    """Return the origin of a cluster file as Unix time; None where there is no such file."""
    from planner.files import read_cluster

    origin = read_cluster(path).origin if path.exists() and path.stat().st_size else None
    return None if origin is None else round(origin.timestamp())

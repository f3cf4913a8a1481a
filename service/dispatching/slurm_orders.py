"""Orders for the components of a server's executions that run as Slurm jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.settings import read_settings
from dispatch.backends.slurm.control.slurm import open_slurm
from dispatch.backends.slurm.slurm_follower import SlurmFollower
from dispatch.executions.assignment import Delta
from dispatch.executions.peers import PeerBook
from service.commits.replica import Replica


def slurm_follower(
    settings: Path,
    peers: PeerBook,
    tenure: int,
    replica: Replica,
    *,
    leads: Callable[[], bool],
    needs_history: bool,
) -> SlurmFollower:
    """Return the follower that carries out the executions of a table on a Slurm.

    Parameters
    ----------
    leads
        Returns whether this process still leads the dispatch.
    needs_history
        Whether it is an error if the accounting does not answer at the start.

    Raises
    ------
    SlurmError
        If it does not answer, or lacks required capabilities.
    """
    slurm = open_slurm(read_settings(settings))
    return SlurmFollower(
        slurm,
        order_of(peers),
        tenure,
        -replica.plan_ms(0),
        peers=peers,
        leads=leads,
        needs_history=needs_history,
    )


def order_of(peers: PeerBook) -> Callable[[Delta], ComponentOrder]:
    """Return a function that makes the order of a delta."""

    def order(delta: Delta) -> ComponentOrder:
        launch = peers.launch(delta)
        application, component = launch.execution.application, launch.component
        return ComponentOrder(
            application.name,
            launch.execution.tenant,
            launch.command,
            component.resources,
            tuple(launch.environment.items()),
            component.core,
            application.reservation,
            sum(one.count for one in application.core),
            launch.held.ports,
        )

    return order

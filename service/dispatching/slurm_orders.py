"""Orders for the components of a server's executions that run as Slurm jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.settings import read_settings
from dispatch.backends.slurm.control.slurm import open_slurm
from dispatch.backends.slurm.slurm_follower import SlurmFollower
from dispatch.executions.assignment import Delta
from dispatch.executions.table import ExecutionTable
from service.commits.replica import Replica


def slurm_follower(
    settings: Path,
    table: ExecutionTable,
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
    orders, origin_ms = order_of(table), -replica.plan_ms(0)
    return SlurmFollower(slurm, orders, tenure, origin_ms, leads=leads, needs_history=needs_history)


def order_of(table: ExecutionTable) -> Callable[[Delta], ComponentOrder]:
    """Return a function that makes the order of a delta."""

    def order(delta: Delta) -> ComponentOrder:
        execution = table.get(delta.execution)
        assert execution is not None
        component = next(
            part.component for part in execution.parts if part.component.name == delta.component
        )
        return ComponentOrder(
            execution.application.name,
            execution.tenant,
            component.command,
            component.resources,
            component.environment,
            component.core,
            execution.application.reservation,
            sum(part.component.count for part in execution.parts if part.component.core),
        )

    return order

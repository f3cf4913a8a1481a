"""Which machines have an executor that reports: nothing starts on the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dispatch.backends.run_records import ExecutorState

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Why nothing starts where no executor reports.
NO_EXECUTOR: Final = "no executor reports now, so nothing starts on any machine"


def served_machines(runtime: Runtime) -> int | bool:
    """Return how many machines have an executor that reports; True where all have one."""
    if not runtime.config.executors:
        return True
    live = {
        name
        for one in runtime.store.runs.executors()
        if one.state is ExecutorState.LIVE
        for name in one.machines
    }
    with runtime.reading() as plan:
        machines = {name for group in plan.cluster.machines for name in group.machine_names()}
    return live >= machines or len(live & machines)

"""States of an execution, and the table of transitions between them.

A component has no states here: it has a machine or none, and is up on it or not yet
(`dispatch.executions.execution.HeldComponent`); the effect of its end or failure on its execution
is below.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class ExecutionState(StrEnum):
    """State of one run of an application."""

    QUEUED = "queued"  # waits for its cores
    STARTING = "starting"  # its cores have machines, not all of them run yet
    RUNNING = "running"  # every core component runs
    ENDING = "ending"  # its components are being stopped
    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"
    REJECTED = "rejected"  # can never run here


class ExecutionEvent(StrEnum):
    """An event of an execution."""

    REJECT = "reject"
    ADMIT = "admit"  # its cores are assigned
    CORES_UP = "cores_up"  # the last core component runs
    REQUEUE = "requeue"  # its cores were released; it keeps its submission time
    CORE_FAILED = "core_failed"
    CORE_FAILED_RESTART = "core_failed_restart"
    NEED_FAILED = "need_failed"  # one that has to succeed before it did not, or its time is over
    FINISH = "finish"
    KILL = "kill"
    STOPPED = "stopped"  # no component of it runs any more, after a kill


class TransitionError(ValueError):
    """An event that cannot happen in a state; the message names both."""


_E, _V = ExecutionState, ExecutionEvent

#: (state, event) -> next state. Any other pair is an error.
TRANSITIONS: Final[dict[tuple[ExecutionState, ExecutionEvent], ExecutionState]] = {
    (_E.QUEUED, _V.ADMIT): _E.STARTING,
    (_E.QUEUED, _V.REJECT): _E.REJECTED,
    (_E.QUEUED, _V.KILL): _E.KILLED,
    (_E.QUEUED, _V.NEED_FAILED): _E.FAILED,
    (_E.STARTING, _V.CORES_UP): _E.RUNNING,
    (_E.STARTING, _V.REQUEUE): _E.QUEUED,
    (_E.STARTING, _V.CORE_FAILED): _E.FAILED,
    (_E.STARTING, _V.CORE_FAILED_RESTART): _E.QUEUED,
    (_E.STARTING, _V.FINISH): _E.COMPLETED,
    (_E.STARTING, _V.KILL): _E.ENDING,
    (_E.RUNNING, _V.REQUEUE): _E.QUEUED,
    (_E.RUNNING, _V.CORE_FAILED): _E.FAILED,
    (_E.RUNNING, _V.CORE_FAILED_RESTART): _E.QUEUED,
    (_E.RUNNING, _V.FINISH): _E.COMPLETED,
    (_E.RUNNING, _V.KILL): _E.ENDING,
    (_E.ENDING, _V.STOPPED): _E.KILLED,
}

#: States that nothing leaves.
FINAL_EXECUTION_STATES: Final = frozenset({_E.COMPLETED, _E.FAILED, _E.KILLED, _E.REJECTED})


def next_execution_state(state: ExecutionState, event: ExecutionEvent) -> ExecutionState:
    """Return the state after `event`.

    Raises
    ------
    TransitionError
        If the table does not have it.
    """
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise TransitionError(f"an execution that is {state} cannot {event}")
    return found


def after_component_failure(*, core: bool, restart: bool) -> ExecutionEvent | None:
    """Return the event that a component's failure causes: None if the component is elastic."""
    if not core:
        return None
    return ExecutionEvent.CORE_FAILED_RESTART if restart else ExecutionEvent.CORE_FAILED

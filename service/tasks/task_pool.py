"""TaskPool: runs independent tasks somewhere, with the same results wherever that is.

A task is a function of a module and its arguments, all of which can be pickled. What it returns
depends on nothing but them, so it does not matter where it runs, nor in which order tasks end. A
task whose worker dies is begun again elsewhere, from what it has kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

#: How often a task is begun again after its worker died, before it is given up.
MOST_DEATHS: Final = 3


class TaskPoolError(ValueError):
    """A pool that cannot run tasks, or not any more; the message says what would be right."""


class TaskLink(Protocol):
    """What a task is given to speak with whoever asked for it."""

    @property
    def kept(self) -> Any:
        """What an earlier run of this task has kept; None at the first."""
        ...

    def stop(self) -> bool:
        """Return whether the task is to end with the best so far."""
        ...

    def tell(self, news: Any) -> None:
        """Send news of the work; a later word may arrive before an earlier one is looked at."""
        ...

    def keep(self, state: Any) -> None:
        """Keep what a later run of this task can begin with; the last one counts."""
        ...


@dataclass(frozen=True, slots=True)
class PoolTask:
    """One task.

    Attributes
    ----------
    name
        For people.
    work
        What is done; can be pickled.
    kept
        What an earlier run has kept, or None.
    """

    name: str
    work: Callable[[TaskLink], Any]
    kept: Any = None


def _ignore(index: int, what: Any) -> None:
    """Hear what nobody asked for."""


@dataclass(frozen=True, slots=True)
class PoolWatch:
    """What whoever runs tasks hears of them, and says meanwhile.

    Attributes
    ----------
    stop
        Whether no more tasks are to begin, and those at work are to end with the best so far.
    told, kept
        Called with the index of a task and its news, or what it keeps.
    """

    stop: Callable[[], bool] = bool
    told: Callable[[int, Any], None] = _ignore
    kept: Callable[[int, Any], None] = _ignore


class TaskPool(Protocol):
    """Where tasks run."""

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index and the answer of each task as it ends.

        After a stop only those that had begun. What a task raises is raised here.

        Raises
        ------
        TaskPoolError
            If a task cannot be run: its workers die, or the cluster does not answer any more.
        """
        ...

    def close(self) -> None:
        """Give back what the pool holds; tasks at work are abandoned."""
        ...

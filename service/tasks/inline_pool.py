"""InlinePool: tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from service.tasks.task_pool import PoolTask, PoolWatch


@dataclass(frozen=True, slots=True)
class _InlineLink:
    index: int
    kept: Any
    watch: PoolWatch

    def stop(self) -> bool:
        return self.watch.stop()

    def tell(self, news: Any) -> None:
        self.watch.told(self.index, news)

    def keep(self, state: Any) -> None:
        self.watch.kept(self.index, state)


class InlinePool:
    """Runs tasks in order; one at least, even where it is to stop already."""

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield each task's answer as it ends, see `TaskPool`."""
        watching = watch or PoolWatch()
        for index, task in enumerate(tasks):
            if index and watching.stop():
                return
            yield index, task.work(_InlineLink(index, task.kept, watching))

    def close(self) -> None:
        """Hold nothing."""

"""CP-SAT solvers that run side by side, stopped together."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class SolverGroup:
    """Solvers of one proof; any thread may stop them all.

    Attributes
    ----------
    is_over
        Whether it was stopped; then nothing begins any more.
    """

    is_over: bool = False
    _running: list[Any] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def solve(self, solver: Any, model: Any) -> Any:
        """Let a solver solve a model and return its status.

        Raises
        ------
        TimeoutError
            If the group was stopped before.
        """
        with self._lock:
            if self.is_over:
                raise TimeoutError
            self._running.append(solver)
        try:
            return solver.solve(model)
        finally:
            with self._lock:
                self._running.remove(solver)

    def stop(self) -> None:
        """Stop what runs; call it again until all have ended: one that only begins is deaf."""
        with self._lock:
            self.is_over = True
            running = list(self._running)
        for solver in running:
            solver.stop_search()

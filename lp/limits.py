"""Limits of a solve, its warm start, the monitor of its progress, and errors of its input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lp.result import Basis, FloatArray

#: Largest integer that solvers store.
LARGEST: Final = 2**31 - 1

#: Solvers start any number of threads that they are given, even if it overloads the machine.
_MOST_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class SolveLimits:
    """Time, work and precision of one solve.

    Attributes
    ----------
    time_s
        Wall-clock limit. In deterministic mode only the watchdog applies it, because a solution
        that depends on the clock is not reproducible.
    gap_rel, gap_abs
        A model with integers counts as optimal once the proven gap is this small.
    nodes, iterations
        Work limits: branch-and-bound nodes (models with integers), and simplex, interior-point or
        first-order iterations (continuous models).
    threads
        0 lets the solver choose; 1,024 at most.
    seed
        Any integer >= 0; passed to solvers modulo 2^31.
    deterministic
        One thread, fixed seed, work limits instead of the clock: equal calls give equal solutions.
    watchdog
        Solve in a child process that is killed `watchdog_grace_s` after `time_s`; the best solution
        reported until then is returned.
    options
        Passed to the solver under the solver's own option names, after the options set here.
    """

    time_s: float = math.inf
    gap_rel: float = 1e-6
    gap_abs: float = 1e-9
    nodes: int | None = None
    iterations: int | None = None
    threads: int = 0
    seed: int = 0
    deterministic: bool = False
    watchdog: bool = False
    watchdog_grace_s: float = 2.0
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_limits(self)

    @property
    def solver_time_s(self) -> float:
        """Wall-clock limit passed to the solver."""
        return math.inf if self.deterministic else self.time_s

    @property
    def solver_seed(self) -> int:
        """Seed passed to the solver, which stores it in 32 bits."""
        return self.seed % (LARGEST + 1)

    @property
    def solver_nodes(self) -> int | None:
        """Node limit passed to the solver, at most `LARGEST`."""
        return None if self.nodes is None else min(self.nodes, LARGEST)

    @property
    def solver_iterations(self) -> int | None:
        """Iteration limit passed to the solver."""
        return None if self.iterations is None else min(self.iterations, LARGEST)

    @property
    def solver_threads(self) -> int:
        """Thread count passed to the solver."""
        return 1 if self.deterministic else self.threads


def _check_limits(limits: SolveLimits) -> None:
    """Raise an error that names the first field that no solver could honour."""
    for name in ("time_s", "gap_rel", "gap_abs", "watchdog_grace_s"):
        value = getattr(limits, name)
        if math.isnan(value) or value < 0:
            raise ModelError(f"{name} is {value}: expected a number >= 0")
    for name in ("nodes", "iterations", "threads", "seed"):
        value = getattr(limits, name)
        if value is not None and value < 0:
            raise ModelError(f"{name} is {value}: expected an integer >= 0")
    if limits.threads > _MOST_THREADS:
        raise ModelError(f"threads is {limits.threads}: expected at most {_MOST_THREADS:,}")
    if limits.deterministic and math.isfinite(limits.time_s) and not limits.watchdog:
        raise ModelError(
            "deterministic=True with time_s: a clock makes answers differ between runs; "
            "limit nodes or iterations, or set watchdog=True to keep time_s as a kill deadline"
        )
    if limits.watchdog and not math.isfinite(limits.time_s):
        raise ModelError(
            "watchdog=True needs a finite time_s: the child process is killed after it"
        )


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Starting point: values for a model with integers, a basis for a continuous one."""

    values: FloatArray | None = None
    basis: Basis | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of a running solve; `values` is set only if a better solution was found."""

    elapsed_s: float
    objective: float
    bound: float
    values: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Monitor:
    """Watches a running solve.

    Attributes
    ----------
    on_progress
        Called with every better solution and with better bounds (solvers with callbacks: HiGHS).
    should_stop
        Polled by the solver; True ends the solve with the best solution so far.
    """

    on_progress: Callable[[Progress], None] | None = None
    should_stop: Callable[[], bool] | None = None


class ModelError(ValueError):
    """No solver can accept the input; the message has the error and valid input."""

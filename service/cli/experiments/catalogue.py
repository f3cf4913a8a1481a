"""The experiments that `agenda simulate` knows.

Each has one module beside this one, which runs it and makes its tables and panels; the module is
imported when the experiment runs. A new experiment is such a module and a line here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.cli.experiments.effort import ExperimentEffort
    from service.cli.experiments.results import ExperimentResult


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment: its name, what it is, how to run it, and what may be asked of it.

    Attributes
    ----------
    target
        ``module:function`` beside this module; the function takes an `ExperimentEffort`, and the
        name too where `by_name`.
    by_name
        The function runs several experiments.
    has_jobs
        Its jobs can be written.
    has_sizes
        It obeys `ExperimentEffort.sizes`.
    """

    name: str
    help: str
    target: str
    by_name: bool = False
    has_jobs: bool = False
    has_sizes: bool = False

    def run(self, effort: ExperimentEffort) -> ExperimentResult:
        """Import the module and run the experiment."""
        module, _, attribute = self.target.partition(":")
        function = getattr(importlib.import_module(f"service.cli.experiments.{module}"), attribute)
        result: ExperimentResult = function(effort, *((self.name,) if self.by_name else ()))
        return result


def _zoe(name: str, about: str) -> Experiment:
    return Experiment(name, about, "zoe:run_table", by_name=True, has_jobs=True)


def _rayon(name: str, about: str) -> Experiment:
    return Experiment(name, about, "rayon:run_table", by_name=True, has_jobs=True)


_ALL: Final = (
    Experiment("omega", "1 to 32 planners on one Plan (Omega 4.3, 5.2)", "omega:run_planners"),
    Experiment("lotes-trace", "Google's trace by LoTES, Tetris, Greedy (5.3)", "lotes:run_trace"),
    Experiment(
        "lotes-resources",
        "classes of differing requests (5.4.2)",
        "lotes:run_resources",
        has_sizes=True,
    ),
    Experiment(
        "lotes-rates", "rates that differ by machine (5.4.3)", "lotes:run_rates", has_sizes=True
    ),
    Experiment("lotes-drift", "classes renewed, or of the first hours", "lotes:run_drift"),
    Experiment("zoe-example", "Zoe's worked example, exact (figure 1)", "zoe:run_example"),
    _zoe("zoe-baseline", "flexible against rigid (4.2)"),
    _zoe("zoe-malleable", "flexible against malleable (table 1)"),
    _zoe("zoe-sizes", "definitions of size (4.4)"),
    _zoe("zoe-preemption", "with and without preemption (4.5)"),
    _zoe("zoe-widths", "what the gains depend on"),
    Experiment("zoe-cluster", "the shape of the ten servers (6)", "zoe:run_cluster", has_jobs=True),
    _rayon("rayon-sla", "deadlines kept, against a capacity scheduler (6.4)"),
    _rayon("rayon-overreserve", "work asked for 50 % above the truth (6.4.2)"),
    _rayon("rayon-mixed", "MapReduce, gangs and workflows (6.4.3)"),
    Experiment(
        "rayon-prediction",
        "recurring jobs predicted from runs before, Google and KTH (figure 13)",
        "prediction:run_history",
    ),
    Experiment("promise-levels", "what pooled, packable and placed promise", "promise:run_levels"),
    Experiment("example-day", "the example day, pooled and on machines", "example_day:run_day"),
)

EXPERIMENTS: Final = {experiment.name: experiment for experiment in _ALL}

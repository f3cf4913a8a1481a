"""The experiments that `python -m bench.papers` knows; each is imported when it runs."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from bench.papers.experiment import ExperimentEffort, ExperimentResult


#: How long an experiment takes at its own sizes, on one core.
Time = Literal["seconds", "minutes", "hours"]

#: Traces of the folder that AGENDA_TRACES names; in brackets, those that it does without.
_GOOGLE: Final = "google2011"
_GOOGLE_IF: Final = "(google2011)"
_SWIM_IF: Final = "(swim)"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment: its name, what it is, how to run it, and what may be asked of it.

    Attributes
    ----------
    target
        ``module:function`` alongside this module; the function takes an `ExperimentEffort`, and the
        name too where `by_name`.
    time
        How long it takes without ``--small``.
    traces
        Folders of traces that it reads; in brackets where it draws the work without them.
    claim, found
        What the paper or the project claims, and whether it holds by docs/results/index.md.
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
    time: Time
    traces: str
    claim: str
    found: str
    by_name: bool = False
    has_jobs: bool = False
    has_sizes: bool = False

    def run(self, effort: ExperimentEffort) -> ExperimentResult:
        """Import the module and run the experiment."""
        module, _, attribute = self.target.partition(":")
        function = getattr(importlib.import_module(f"bench.papers.{module}"), attribute)
        result: ExperimentResult = function(effort, *((self.name,) if self.by_name else ()))
        return result

    @property
    def needs(self) -> str:
        """The folder of traces without which it cannot run, or nothing."""
        return "" if self.traces.startswith("(") else self.traces


def _zoe(name: str, about: str, claim: str, found: str) -> Experiment:
    target = "zoe:run_table"
    return Experiment(
        name, about, target, "minutes", _GOOGLE_IF, claim, found, by_name=True, has_jobs=True
    )


def _rayon(name: str, about: str, claim: str, found: str) -> Experiment:
    target = "rayon:run_table"
    return Experiment(
        name, about, target, "minutes", _SWIM_IF, claim, found, by_name=True, has_jobs=True
    )


def _lotes(name: str, about: str, traces: str, claim: str, found: str) -> Experiment:
    target = f"lotes:run_{name.partition('-')[2]}"
    drawn = not traces
    time: Time = "hours" if drawn else "minutes"
    return Experiment(name, about, target, time, traces, claim, found, has_sizes=drawn)


def _figure(
    name: str, about: str, target: str, time: Time, traces: str, claim: str, found: str
) -> Experiment:
    return Experiment(name, about, target, time, traces, claim, found)


def _cell(name: str, about: str, claim: str, found: str) -> Experiment:
    target = "omega_sweeps:run_sweep"
    return Experiment(name, about, target, "minutes", "", claim, found, by_name=True)


_HOLDS: Final = "holds"
_PART: Final = "in part"
_NO: Final = "does not hold"

_ALL: Final = (
    Experiment(
        "omega", "1 to 32 planners on one Plan (Omega 4.3, 5.2)", "omega:run_planners",
        "minutes", "", "coarse conflict checks make more conflicts than fine ones", _HOLDS,
    ),
    _cell("omega-waits", "architectures on a cell (Omega figures 5 to 7, 12)",
          "shared state keeps batch jobs from waiting behind service jobs", _HOLDS),
    _cell("omega-loads", "more batch jobs on shared state (Omega figure 8)",
          "waits and conflicts rise with the load until it saturates", _HOLDS),
    _cell("omega-balance", "more batch jobs dealt to 1 to 32 schedulers (Omega figure 9)",
          "more schedulers bear more batch jobs, at little more conflict", _HOLDS),
    _cell("omega-schedulers", "slower and slower batch schedulers, 1 to 32 (Omega figure 13)",
          "three batch schedulers bear decisions three times as long", _HOLDS),
    _cell("omega-decisions", "busyness by both decision times (Omega figure 10)",
          "two-level leaves jobs unserved where shared state serves them", _PART),
    _cell("omega-constraints", "jobs that are picky about machines (Omega figures 11, 12)",
          "conflicts above 1 from 10 s a decision on, in cell B", _NO),
    _cell("omega-rules", "rules of transactions on a cell (Omega figure 14)",
          "all-or-nothing conflicts twice as often, coarse checks 2 to 3 times", _HOLDS),
    Experiment("omega-mapreduce", "MapReduce jobs with idle machines (Omega figures 15, 16)",
               "omega_sweeps:run_mapreduce", "minutes", "",
               "50 to 70 % of the jobs gain; four fifths gain up to 3 to 4 times", _PART),
    Experiment("omega-history", "MapReduce jobs by a model of past runs (Omega figures 15, 16)",
               "omega_sweeps:run_models", "minutes", "",
               "50 to 70 % of the jobs gain, and the use of the cell varies more", _PART),
    Experiment("omega-precedence", "service jobs that may evict batch tasks (Omega 3.4, 5)",
               "omega_sweeps:run_precedences", "minutes", "",
               "preemption makes little difference to waits", _PART),
    _lotes("lotes-trace", "Google's trace by LoTES, Tetris, Greedy (5.3)", _GOOGLE,
           "LoTES never waits longer than Tetris; Greedy is worst by far", _NO),
    _figure("lotes-arrivals", "Google's arrivals by hour and class (figures 6, 7)",
            "lotes:run_arrivals", "seconds", _GOOGLE,
            "four classes; their shares change heavily from hour to hour", _PART),
    _figure("lotes-queues", "how long jobs wait, and queues (figures 9, 10)",
            "lotes:run_queues", "minutes", _GOOGLE,
            "less than 1 % wait over an hour, by Tetris 7 h, by Greedy 17 h", _NO),
    _lotes("lotes-resources", "classes of differing requests (5.4.2)", "",
           "stable at 0.97 of the rate that the LP sustains", _PART),
    _lotes("lotes-rates", "rates that differ by machine (5.4.3)", "",
           "at a load of 0.95 Tetris is unstable from rates that differ by 0.2 on", _PART),
    _lotes("lotes-drift", "classes renewed, or of the first hours", _GOOGLE,
           "renewed classes wait less than those of the first hours", _NO),
    Experiment("zoe-example", "Zoe's worked example, exact (figure 1)", "zoe:run_example",
               "seconds", "", "the averages of the paper's figure", _HOLDS),
    _zoe("zoe-baseline", "flexible against rigid (4.2)",
         "flexible halves the median turnaround", _PART),
    _zoe("zoe-malleable", "flexible against malleable (table 1)",
         "mean turnaround 0.90 of malleable's by FIFO, 0.84 by SJF", _PART),
    _zoe("zoe-sizes", "definitions of size (4.4)",
         "sizes of two dimensions beat SJF, of three those of two", _HOLDS),
    _zoe("zoe-preemption", "with and without preemption (4.5)",
         "preemption spares interactive work the queue", _PART),
    Experiment("zoe-workload", "the workload's distributions (journal, figure 2)",
               "zoe:run_workload", "seconds", _GOOGLE_IF,
               "runs to weeks, components to 6 cores and tens of GB, thousands of them", _HOLDS),
    _zoe("zoe-inelastic", "flexible against rigid, all core (D5.2, table 10.4a)",
         "turnaround is exactly the same", _HOLDS),
    _zoe("zoe-malleable-sizes", "definitions of size by malleable (D5.2, figures 18 to 23)",
         "sizes of two and three dimensions beat that of time", _PART),
    _zoe("zoe-preemption-sizes", "preemption by every size (D5.2, figures 31 to 33)",
         "interactive work waits a hundredth, use drops and the line grows", _PART),
    _zoe("zoe-machines", "components on machines, not in one pool (4.2, table 1)",
         "75 to 80 % allocated; flexible halves the median turnaround, by SJF too", _NO),
    _zoe("zoe-widths", "what the gains depend on", "none: an explanation of zoe-baseline", ""),
    Experiment("zoe-cluster", "the shape of the ten servers (6)", "zoe:run_cluster", "seconds",
               "", "turnaround 0.63 and 0.78 of rigid's, memory 1.2 times", _PART, has_jobs=True),
    _rayon("rayon-sla", "deadlines kept, against a capacity scheduler (6.4)",
           "all accepted deadlines kept; capacity scheduler below 85 %", _PART),
    _rayon("rayon-overreserve", "work asked for 50 % above the truth (6.4.2)",
           "all deadlines kept, and best effort gains 20 %", _PART),
    _rayon("rayon-mixed", "MapReduce, gangs and workflows (6.4.3)",
           "all accepted deadlines kept, gangs gather at once", _HOLDS),
    _rayon("rayon-served", "the same by a server's own defaults (6.4, 6.4.2)",
           "all accepted deadlines kept, and best effort gains 15 %", _PART),
    _rayon("rayon-served-mixed", "mixed jobs by a server's own defaults (6.4.3)",
           "all accepted deadlines kept, gangs gather at once", _PART),
    _figure("rayon-peaks", "peaks of workflows over their means (figure 3)",
            "rayon_peaks:run_peaks", "seconds", "(alibaba)",
            "provisioning for the peak holds 1,470 % too much", _PART),
    _figure("rayon-planning", "agents on workloads A, B and C (figures 12, 14)",
            "rayon_planning:run_planning", "minutes", _SWIM_IF,
            "a solver holds 20 to 40 % more of few jobs, less of complex ones", _PART),
    _figure("rayon-queues", "16 queues as tuned, and what is held (figure 16)",
            "rayon_holdings:run_queues", "minutes", _SWIM_IF,
            "queues hold twice their guarantee at most; Rayon spreads what is free", _HOLDS),
    _figure("rayon-allocations", "a job of each workload over time (figure 19)",
            "rayon_holdings:run_allocations", "minutes", _SWIM_IF,
            "a gang gets all at once; by queues its containers trickle in", _HOLDS),
    Experiment(
        "rayon-prediction",
        "recurring jobs predicted from runs before, Google and KTH (figure 13)",
        "prediction:run_history", "minutes", _GOOGLE, "work over-estimated by 8.25 %", _NO,
    ),
    Experiment("promise-levels", "what pooled and placed promise", "promises:run_levels",
               "minutes", "", "no promise of machines is broken", _HOLDS),
    Experiment("example-day", "the example day, pooled and on machines", "promises:run_day",
               "seconds", "", "no promise of machines is broken", _HOLDS),
)  # fmt: skip

EXPERIMENTS: Final = {experiment.name: experiment for experiment in _ALL}

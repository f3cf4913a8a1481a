"""`swim_refusals`: which promises of the SWIM hour of `slurm_swim` are refused, without a Slurm.

The same requests at the same times on a Plan of eight machines that are promised. A job ends
`END_S` after its run, and what it has left is given back: `with its slot` it begins when its slot
does, as jobs of `agenda sbatch` do; `at once`, as work that may start early does on idle machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.workloads.slurm_hour import MARGIN_S
from bench.workloads.swim_hour import CPUS, HourJob, swim_hour
from bench.workloads.traces import SKIPPED, traces_folder
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.files import WorkloadLine, cluster_from_json
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Change, Close
from planner.reservations.state import LIVE
from planner.workload.compile import compile_line
from rdl.errors import RdlError

NAME = "swim_refusals"

COMPRESSION: Final = 15
MACHINES: Final = 8
END_S: Final = 3
AGENTS: Final = ("gree", "gree-l", "headroom", "level", "aligned", "aligned-early", "earliest")


def run(small: bool) -> dict[str, object]:
    """Ask for each promise of the hour; count by agent how many are refused."""
    folder = traces_folder()
    params: dict[str, object] = {"compression": COMPRESSION, "machines": MACHINES}
    if folder is None:
        return {"params": params, "figures": SKIPPED}
    jobs = [j for j in swim_hour(folder, COMPRESSION, 40 if small else None) if j.deadline_s]
    figures: dict[str, object] = {"asked": len(jobs)}
    for name in AGENTS[:1] if small else AGENTS:
        agent = agent_named(name)
        figures[name] = {
            "refused, with its slot": _refused(jobs, agent, at_once=False),
            "refused, at once": _refused(jobs, agent, at_once=True),
        }
    return {"params": params, "figures": figures}


def _refused(jobs: Sequence[HourJob], agent: Agent, *, at_once: bool) -> int:
    """Return how many of some jobs an agent finds no place for."""
    hour = _Hour(agent)
    for job in jobs:
        hour.move_to(int(job.submitted_s) + 1)
        hour.ask(job, at_once=at_once)
    return hour.refused


class _Hour:
    """A Plan at an instant, and when the jobs that it holds will have ended."""

    def __init__(self, agent: Agent) -> None:
        machines = {
            "name": "n", "count": MACHINES, "resources": {"cpu": CPUS, "memory": "2000 MiB"},
        }  # fmt: skip
        self._cluster = cluster_from_json(
            {"step": "1s", "horizon": "1h", "machines": [machines], "promises": {"level": "placed"}}
        )
        self._plan = Plan(self._cluster, self._cluster.grid())
        self._agent = agent
        self._ends: dict[str, int] = {}
        self.refused = 0

    def move_to(self, step: int) -> None:
        """Give back what jobs that end until a step have left, and go there."""
        for id_, end in sorted(self._ends.items(), key=lambda one: one[1]):
            if end <= step:
                self._advance(end)
                number = self._plan.table.number_of(id_)
                if number is not None and self._plan.table.state(number) in LIVE:
                    self._commit(Close(id_))
                del self._ends[id_]
        self._advance(step)

    def ask(self, job: HourJob, *, at_once: bool) -> None:
        """Ask for the promise of a job."""
        assert job.deadline_s is not None
        plan, lease_s = self._plan, job.run_s + MARGIN_S
        gang = f"{job.nodes}, {job.nodes}, {lease_s}, {lease_s * job.nodes}, spread=1"
        window = f"{plan.now}, {plan.now + int(job.deadline_s - job.submitted_s)}"
        line = WorkloadLine(
            job.id, f"window(atom(<{job.cpus} cpu>, {gang}), {window})",
            submitted_ms=plan.grid.ms(plan.now),
        )  # fmt: skip
        try:
            request = compile_line(line, self._cluster, plan.grid)
        except RdlError:
            self.refused += 1
            return
        result = self._agent.plan([request], plan.view(), Limits())[0]
        if not result.placed or not self._commit(Admit(request, result, self._agent.name)):
            self.refused += 1
            return
        number = plan.table.number_of(job.id)
        assert number is not None
        start = plan.now if at_once else int(plan.table.meta[number]["begin"])
        self._ends[job.id] = start + job.run_s + END_S

    def _advance(self, step: int) -> None:
        if step > self._plan.now:
            self._commit(Advance(step))

    def _commit(self, change: Change) -> bool:
        prepared = self._plan.prepare([change], self._plan.version)
        if prepared.record is None:
            return False
        self._plan.apply(prepared.record)
        return True

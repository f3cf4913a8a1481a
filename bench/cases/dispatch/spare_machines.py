"""`spare_machines`: promises that lost machines break, by how many machines are kept free of them.

A Plan of machines that fail and are repaired, without a dispatcher: gangs of whole machines ask for
more than there is, and what finds a place is held. Every loss and every return is answered as a
server does: spare machines first, then the adapter. What is lost keeps what it has done.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from planner.adaptation.adapter import adapt
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Outage
from planner.cluster.lost_machines import LOST_MS
from planner.files import WorkloadLine, cluster_from_json
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Change, Reconfigure
from planner.reservations.state import State
from planner.workload.compile import compile_line
from rdl.errors import RdlError
from service.dispatching.outages.spare_outages import outages_with_spares

NAME = "spare_machines"

MACHINES: Final = 16
STEP_S: Final = 600
DAYS: Final = 12
#: Steps between two losses of a machine, and until it is back, on average: four days, four hours.
LOSS_STEPS: Final = 4 * 144
REPAIR_STEPS: Final = 24
SHARES: Final = (0.0, 0.5, 0.9, 0.99)
SEEDS: Final = (1, 2, 3)


def run(small: bool) -> dict[str, object]:
    """Count what is accepted and what of it is broken, by the share of the policy."""
    figures: dict[str, object] = {}
    for share in SHARES[-1:] if small else SHARES:
        found = [_Weeks(seed, share) for seed in (SEEDS[:1] if small else SEEDS)]
        for weeks in found:
            weeks.play(1 if small else DAYS)
        asked, accepted, broken = (
            sum(getattr(one, name) for one in found) for name in ("asked", "accepted", "broken")
        )
        figures[f"{share:g}"] = {"asked": asked, "accepted": accepted, "broken": broken}
    params = {"machines": MACHINES, "days": DAYS, "loss_steps": LOSS_STEPS, "seeds": len(SEEDS)}
    return {"params": params, "figures": figures}


class _Weeks:
    """A Plan, and machines that fail."""

    def __init__(self, seed: int, share: float) -> None:
        machines = {"name": "n", "count": MACHINES, "resources": {"cpu": 1}}
        self._cluster = cluster_from_json(
            {
                "step": STEP_S, "horizon": "3d", "machines": [machines],
                "promises": {"level": "placed"}, "dispatch": {"spare": share},
            }
        )  # fmt: skip
        self._plan = Plan(self._cluster, self._cluster.grid())
        self._agent = agent_named("earliest")
        self._asks, self._fails = random.Random(seed), random.Random(seed + 1000)
        self._back: dict[int, int] = {}
        self.asked = self.accepted = 0

    @property
    def broken(self) -> int:
        """Return how many accepted reservations have failed, or lack something still."""
        states = (one.state for one in self._plan.reservations())
        return sum(state in (State.FAILED, State.DEGRADED) for state in states)

    def play(self, days: int) -> None:
        """Let some days pass."""
        for step in range(1, 144 * days):
            self._commit(Advance(step, step + 3 * 144))
            self._follow_machines(step)
            if self._asks.random() < 0.8:
                self._ask(step)

    def _ask(self, step: int) -> None:
        """Ask for a gang of one to four machines for one to four hours, in twice that time."""
        nodes, steps = self._asks.randint(1, 4), self._asks.randint(6, 24)
        end = step + round(steps * self._asks.uniform(1.5, 3))
        gang = f"{nodes}, {nodes}, {steps * STEP_S}, {steps * nodes * STEP_S}, spread=1"
        window = f"{step * STEP_S}, {end * STEP_S}"
        line = WorkloadLine(
            f"r{self.asked}", f"window(atom(<1 cpu>, {gang}), {window})",
            submitted_ms=self._plan.grid.ms(step),
        )  # fmt: skip
        self.asked += 1
        try:
            request = compile_line(line, self._plan.cluster, self._plan.grid)
        except RdlError:
            return
        result = self._agent.plan([request], self._plan.view(), Limits())[0]
        if result.placed and self._commit(Admit(request, result, self._agent.name)):
            self.accepted += 1

    def _follow_machines(self, step: int) -> None:
        """Lose machines and bring them back, and answer as a server does."""
        now_ms = self._plan.grid.ms(step)
        back = {index for index, at in self._back.items() if at <= step}
        lost = {
            index for index in range(MACHINES)
            if self._fails.random() < 1 / LOSS_STEPS and index not in self._back
        }  # fmt: skip
        for index in back:
            del self._back[index]
        for index in lost:
            self._back[index] = step + 1 + round(self._fails.expovariate(1 / REPAIR_STEPS))
        outages = tuple(
            replace(one, end_ms=now_ms)
            if one.kind == "loss" and one.end_ms > now_ms and one.indices[0] in back
            else one
            for one in self._plan.cluster.outages
        )
        outages += tuple(
            Outage("n", (index,), now_ms, now_ms + LOST_MS, "loss") for index in sorted(lost)
        )
        cluster = replace(self._plan.cluster, outages=outages)
        wanted = outages_with_spares(self._plan, cluster, now_ms)
        if wanted != self._plan.cluster.outages:
            self._commit(Reconfigure(replace(cluster, outages=wanted)))
            self._adapt()

    def _adapt(self) -> None:
        found = adapt(self._plan, Limits(work=20, seed=1))
        if found.changes:
            prepared = self._plan.prepare(found.changes, found.based_on, joint=True)
            if prepared.record is not None:
                self._plan.apply(prepared.record)

    def _commit(self, change: Change) -> bool:
        prepared = self._plan.prepare([change], self._plan.version)
        if prepared.record is None:
            return False
        self._plan.apply(prepared.record)
        return True

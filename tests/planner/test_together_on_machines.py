"""Gangs that run together on a few machines, against every start and every machine for each bundle.

No agent accepts what machines do not hold. A start at which machines hold all members beside what
is there is always found; where others would have to change machine first, some are refused.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.offer_search import quick
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.promise import PromiseLevel
from rdl.resources import Resources
from tests.builders import a_request
from tests.planner.brute_force_packing import Piece, fits_on_machines

STEPS = 6
#: Cores and memory of each machine; the first two have the label.
CAPACITY = ((4, 4), (4, 4), (2, 6))
CLUSTER = Cluster(
    1000,
    STEPS * 1000,
    (
        MachineGroup(
            "wide", 2, Resources.of({"cpu": 4000, "memory": 4}), labels=frozenset({"wide"})
        ),
        MachineGroup("tall", 1, Resources.of({"cpu": 2000, "memory": 6})),
    ),
    promise=PromiseLevel.PLACED,
)

#: Most of the refusals for lack of machines that others could have made way for, in percent.
WRONG_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Gang:
    """One member: so many bundles of (cores, memory), only on labelled machines, or spread."""

    amounts: tuple[int, int]
    count: int
    labelled: bool
    spread: int

    def text(self, lease: int) -> str:
        """Return it as an atom."""
        cores, memory = self.amounts
        bundle = f"<{cores} cpu, {memory} memory>" if memory else f"<{cores} cpu>"
        label = ', on="wide"' if self.labelled else ""
        spread = f", spread={self.spread}" if self.spread else ""
        work = self.count * lease
        return f"atom({bundle}, {self.count}, {self.count}, {lease}, {work}{label}{spread})"


@dataclass(frozen=True, slots=True)
class Job:
    """Gangs that run together for a lease; `number` tells their spreads from those of others."""

    number: int
    lease: int
    gangs: tuple[Gang, ...]

    def text(self) -> str:
        """Return the request."""
        return f"together({', '.join(gang.text(self.lease) for gang in self.gangs)})"

    def pieces(self, start: int) -> list[Piece]:
        """Return what it takes from a step on, each bundle on any machine with its label."""
        return [
            Piece(
                start,
                start + self.lease,
                gang.count,
                gang.amounts,
                frozenset([0, 1]) if gang.labelled else None,
                100 * self.number + index,
                gang.spread,
            )
            for index, gang in enumerate(self.gangs)
        ]


def _job(draw: random.Random, number: int) -> Job:
    gangs = tuple(
        Gang(
            (draw.randint(1, 3), draw.randint(0, 4)),
            draw.randint(1, 2),
            draw.random() < 0.25,
            draw.choice([0, 0, 0, 1]),
        )
        for _ in range(draw.randint(2, 3))
    )
    return Job(number, draw.randint(1, 3), gangs)


@dataclass(slots=True)
class Judged:
    """How many jobs were accepted or refused, and how many refusals brute force would not make.

    Attributes
    ----------
    wrong
        Machines hold it although nothing else moves.
    wrong_if_moved
        Machines hold it once others change machine, at the same times.
    """

    accepted: int = 0
    refused: int = 0
    wrong: int = 0
    wrong_if_moved: int = 0


def _starts(plan: Plan) -> dict[str, int]:
    """Return when each reservation starts: all of its atoms at the same time."""
    found: dict[str, int] = {}
    for one in plan.reservations():
        spans = {(row[0], row[1]) for atom in one.atoms for row in atom.rows.tolist()}
        assert len(spans) == 1, (one.id, spans)
        found[one.id] = next(iter(spans))[0]
    return found


def _judge(agent_name: str, seed: int, judged: Judged) -> None:
    """Ask for six jobs one after the other, each judged by brute force."""
    draw, agent = random.Random(seed), agent_named(agent_name)
    plan, jobs = Plan(CLUSTER, CLUSTER.grid()), dict[str, Job]()
    for number in range(6):
        job = _job(draw, number)
        starts = range(STEPS - job.lease + 1)
        request = a_request(f"r{number}", job.text()).if_possible(CLUSTER)
        if request is None:
            assert not any(fits_on_machines(CAPACITY, job.pieces(start)) for start in starts)
            continue
        jobs[request.id] = job
        result = agent.plan([request], plan.view(), Limits(work=20, seed=1))[0]
        admit = Admit(request, result, agent_name, planner=quick(agent))
        record = plan.prepare([admit], plan.version).record if result.placed else None
        there = _slots_of(plan)
        if record is not None:
            plan.apply(record)
            judged.accepted += 1
            pieces = [one for id_, at in _starts(plan).items() for one in jobs[id_].pieces(at)]
            assert fits_on_machines(CAPACITY, pieces)
            assert fits_on_machines(CAPACITY, _slots_of(plan))
            continue
        judged.refused += 1
        others = [one for id_, at in _starts(plan).items() for one in jobs[id_].pieces(at)]
        judged.wrong += any(
            fits_on_machines(CAPACITY, [*there, *job.pieces(start)]) for start in starts
        )
        judged.wrong_if_moved += any(
            fits_on_machines(CAPACITY, [*others, *job.pieces(start)]) for start in starts
        )


def _slots_of(plan: Plan) -> list[Piece]:
    """Return all slots of a Plan, each on its machine."""
    return [
        Piece(
            start,
            end,
            bundles,
            (atom.bundle.get("cpu", 0) // 1000, atom.bundle.get("memory", 0)),
            frozenset([machine]),
        )
        for held in plan.reservations()
        for atom in held.atoms
        if atom.slots is not None
        for start, end, bundles, machine in atom.slots.tolist()
    ]


@pytest.mark.parametrize(
    ("agent", "seeds"),
    [("gree", range(40)), ("gree-l", range(40)), ("exact", range(4)), ("milp", range(4))],
)
def test_no_start_at_which_machines_hold_all_members_is_missed(agent: str, seeds: range) -> None:
    """Others stay where they are; few are refused for which others would have to move."""
    judged = Judged()
    for seed in seeds:
        _judge(agent, seed, judged)
    assert judged.accepted
    assert judged.refused
    assert judged.wrong == 0
    assert 100 * judged.wrong_if_moved <= WRONG_AT_MOST * judged.refused, judged


def _refused_though_they_fit(seeds: range) -> list[str]:
    """Return the jobs of up to four gangs that an idle cluster refuses and brute force places."""
    wrong: list[str] = []
    agent = agent_named("gree")
    for seed in seeds:
        draw = random.Random(seed)
        job = _job(draw, 0)
        if draw.random() < 0.5:
            job = replace(job, gangs=(*job.gangs, _job(draw, 0).gangs[0]))
        fits = fits_on_machines(CAPACITY, job.pieces(0))
        request = a_request("job", job.text()).if_possible(CLUSTER)
        accepted = False
        if request is not None:
            plan = Plan(CLUSTER, CLUSTER.grid())
            result = agent.plan([request], plan.view(), Limits())[0]
            admit = Admit(request, result, "gree", planner=agent)
            accepted = result.placed and plan.prepare([admit], plan.version).record is not None
        assert fits or not accepted, job.text()
        if fits and not accepted:
            wrong.append(job.text())
    return wrong


def test_an_idle_cluster_refuses_only_what_brute_force_refuses() -> None:
    """Members that compete for the same machines are tried in several orders; one job is left.

    Best fit in five orders is no proof: three of 5,000 jobs that were drawn so are refused wrongly.
    """
    assert len(_refused_though_they_fit(range(150))) <= 1


@pytest.mark.soak
def test_no_start_is_missed_at_length() -> None:
    """The same from a seed that is reported."""
    first = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={first}")
    judged = Judged()
    for seed in range(first, first + 400):
        _judge("gree-l", seed, judged)
    wrong = _refused_though_they_fit(range(first, first + 2000))
    print(judged, wrong)
    assert judged.wrong == 0
    assert len(wrong) <= 4
    assert 100 * judged.wrong_if_moved <= WRONG_AT_MOST * judged.refused

"""Project scheduling instances (PSPLIB .sm, Patterson .rcp) as RDL graphs.

An activity is a gang of one bundle that holds all it needs for as long as it takes; a step is a
second. Renewable resources are those of one machine. What takes no time is bridged by arrows. The
shortest makespan is the least deadline by which the one graph can be placed.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.agent import Limits
from planner.agents.exact.agent import ExactAgent
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.errors import RdlError
from rdl.expressions import Atom, Edge, Graph, Offset, Window
from rdl.resources import Resources

#: Held by activities that need none of the project's resources.
_SLOT = "slot"

_SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Project:
    """Durations, needs[activity][resource], arrows and capacities."""

    name: str
    durations: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]
    arrows: tuple[tuple[int, int], ...]
    capacities: tuple[int, ...]

    @property
    def cluster(self) -> Cluster:
        """One machine that has all of it; the horizon is everything in a row."""
        names = [f"r{index}" for index in range(len(self.capacities))]
        amounts = dict(zip(names, self.capacities, strict=True)) | {_SLOT: len(self.durations)}
        machine = MachineGroup("project", 1, Resources.of(amounts))
        return Cluster(_SECOND_MS, (sum(self.durations) + 1) * _SECOND_MS, (machine,))

    def request(self, deadline: int) -> Request:
        """Return the project as one request that must end by `deadline`.

        Raises
        ------
        rdl.errors.RdlError
            If the arrows alone take longer.
        """
        kept = [index for index, length in enumerate(self.durations) if length]
        number = {index: place for place, index in enumerate(kept)}
        atoms = tuple(self._atom(index) for index in kept)
        edges = tuple(Edge(number[a], number[b]) for a, b in self._bridged())
        graph = Graph(tuple(f"a{index + 1}" for index in kept), atoms, edges)
        window = Window(Offset(0), Offset(deadline * _SECOND_MS), graph)
        context = self.cluster.context(self.cluster.grid(), 0)
        return Request(self.name, "t", "default", 0, 1.0, 0, compile_expression(window, context))

    def _atom(self, index: int) -> Atom:
        needs = {f"r{k}": amount for k, amount in enumerate(self.needs[index]) if amount}
        length = self.durations[index] * _SECOND_MS
        return Atom(Resources.of(needs or {_SLOT: 1}), 1, 1, length, length)

    def _bridged(self) -> list[tuple[int, int]]:
        """Return the arrows between activities that take time."""
        arrows = set(self.arrows)
        for index, length in enumerate(self.durations):
            if length:
                continue
            before = [a for a, b in arrows if b == index]
            after = [b for a, b in arrows if a == index]
            arrows = {pair for pair in arrows if index not in pair}
            arrows.update((a, b) for a in before for b in after)
        return sorted(arrows)


@dataclass(frozen=True, slots=True)
class Makespan:
    """The least deadline met, and whether nothing shorter is proven impossible."""

    length: int
    proven: bool


def shortest(project: Project, time_s: float) -> Makespan:
    """Return the shortest makespan, by shrinking the window until `exact` proves that none fits.

    Parameters
    ----------
    time_s
        For each window.
    """
    agent = ExactAgent()
    plan = Plan(project.cluster, project.cluster.grid())
    best, deadline = sum(project.durations) + 1, sum(project.durations)
    while True:
        try:
            request = project.request(deadline)
        except RdlError as error:
            if error.code != "unsatisfiable":
                raise
            return Makespan(best, True)
        [result], report = agent.solve([request], plan.view(), Limits(time_s=time_s))
        if not result.placed:
            return Makespan(best, report.status == "optimal")
        best = int(result.rows[:, 1].max())
        deadline = best - 1


def read_archive(path: Path) -> Iterator[Project]:
    """Yield the projects of a tar archive, by name."""
    with tarfile.open(path) as archive:
        for member in sorted(archive.getnames()):
            stream = archive.extractfile(member)
            if stream is None:
                continue
            text = stream.read().decode()
            yield read_sm(member, text) if member.endswith(".sm") else read_rcp(member, text)


def read_sm(name: str, text: str) -> Project:
    """Read a PSPLIB single-mode file."""
    arrows_text, rest = text.split("PRECEDENCE RELATIONS:")[1].split("REQUESTS/DURATIONS:")
    needs_text, capacity_text = rest.split("RESOURCEAVAILABILITIES:")
    arrows: list[tuple[int, int]] = []
    for row in _numbers(arrows_text):
        arrows += [(row[0] - 1, after - 1) for after in row[3 : 3 + row[2]]]
    rows = _numbers(needs_text)
    return Project(
        name,
        tuple(row[2] for row in rows),
        tuple(tuple(row[3:]) for row in rows),
        tuple(arrows),
        tuple(_numbers(capacity_text)[0]),
    )


def _numbers(text: str) -> list[list[int]]:
    """Return the lines that are whole numbers only."""
    lines = [line.split() for line in text.splitlines()]
    return [[int(word) for word in words] for words in lines if words and _whole(words)]


def _whole(words: list[str]) -> bool:
    return all(re.fullmatch(r"\d+", word) for word in words)


def read_rcp(name: str, text: str) -> Project:
    """Read a Patterson file."""
    numbers = iter([int(word) for word in text.split()])
    count, resources = next(numbers), next(numbers)
    capacities = tuple(next(numbers) for _ in range(resources))
    durations, needs, arrows = [], [], []
    for index in range(count):
        durations.append(next(numbers))
        needs.append(tuple(next(numbers) for _ in range(resources)))
        arrows += [(index, next(numbers) - 1) for _ in range(next(numbers))]
    return Project(name, tuple(durations), tuple(needs), tuple(arrows), capacities)

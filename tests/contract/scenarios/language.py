"""The words in which scenarios are told: a request and its answer, a cluster, what stands in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from planner.cluster.cluster import Cluster, MachineGroup
from planner.placement import Code
from rdl.resources import Resources

Rows: TypeAlias = list[tuple[int, int, int]]

SECOND = 1000
HOUR = 3600 * SECOND
CORE = Resources.of({"cpu": 1000})
PLACED = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One request and its answer.

    Attributes
    ----------
    rdl
        As text.
    code
        Why it is refused; `PLACED` when it must be placed.
    rows
        Rows by path, in steps, where only these satisfy the request.
    choices
        Options by path of the `any`, where only these can be taken.
    submitted
        In seconds.
    """

    rdl: str
    code: Code | None = PLACED
    rows: Mapping[str, Rows] | None = None
    choices: Mapping[str, int] | None = None
    submitted: float = 0
    priority: int = 0
    weight: float = 1.0
    tenant: str = "ads"


def cluster(
    *groups: MachineGroup, steps: int = 100, step_ms: int = SECOND, **rest: object
) -> Cluster:
    """Return a cluster of ten machines of one core, or of `groups`."""
    machines = groups or (MachineGroup("m", 10, CORE),)
    return Cluster(step_ms, steps * step_ms, machines, **rest)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A sentence, what is there, and what must be answered.

    Attributes
    ----------
    standing
        (first step, first step past the last, bundles of one core) that is taken already.
    """

    name: str
    asks: tuple[Ask, ...]
    cluster: Cluster = field(default_factory=cluster)
    standing: tuple[tuple[int, int, int], ...] = ()


def one(
    name: str,
    rdl: str,
    answer: Code | Mapping[str, Rows] | None = PLACED,
    *standing: tuple[int, int, int],
    on: Cluster | None = None,
    choices: Mapping[str, int] | None = None,
    submitted: float = 0,
) -> Scenario:
    """Return a scenario of one request; `answer` is a code, the only rows, or PLACED."""
    if isinstance(answer, Code):
        ask = Ask(rdl, answer, submitted=submitted)
    else:
        ask = Ask(rdl, rows=answer, choices=choices, submitted=submitted)
    return Scenario(name, (ask,), on or cluster(), standing)


def atom(g: int, h: int, lease: int, work: int, rest: str = "") -> str:
    """Return an atom of one-core bundles as text."""
    return f"atom(<1 cpu>, {g}, {h}, {lease}, {work}{rest})"


UNIT, FULL = atom(1, 1, 1, 1), atom(10, 10, 1, 10)

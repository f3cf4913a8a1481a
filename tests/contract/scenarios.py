"""Scenarios that every agent must answer as derived by hand: the table behind test_agents.py.

A scenario is a sentence, a cluster, what stands in it already, and requests with the answers that
follow from the language and the cluster alone. Rows are given where they are the only ones there
are; elsewhere the oracle and the validator judge. Times are in steps of one second and bundles of
one core unless a scenario says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TypeAlias

from planner.cluster import Cluster, MachineGroup, Outage
from planner.placement import Code
from planner.policy import CapacityOverTime, Quota, Scope
from rdl.resources import Resources

Rows: TypeAlias = list[tuple[int, int, int]]

SECOND = 1000
HOUR = 3600 * SECOND
CORE = Resources.of({"cpu": 1000})
PLACED = None

#: Agents whose rule is incomplete on purpose: they may refuse what others place, never the reverse.
INCOMPLETE = frozenset({"gree-paper", "headroom"})

#: Agents that solve: slower, and judged by fewer random examples.
SOLVERS = frozenset({"milp", "exact", "hybrid"})


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


GPU_MACHINE = Resources.of({"cpu": 16_000, "gpu": 8})
PLAIN_MACHINE = Resources.of({"cpu": 16_000})
GPUS = MachineGroup("gpu", 10, GPU_MACHINE, frozenset({"gpu"}))
PLAIN = MachineGroup("plain", 40, PLAIN_MACHINE)
WIDE = Resources.of({"cpu": 2000, "memory": 4096})

ATOMS = (
    one("a malleable atom on an empty cluster", atom(1, 10, 5, 50)),
    one(
        "a window that fits the work exactly",
        f"window({atom(1, 10, 5, 50)}, 0, 5)",
        {"0": [(0, 5, 10)]},
    ),
    one(
        "a gang in a window of its length",
        f"window({atom(4, 4, 10, 40)}, 7, 17)",
        {"0": [(7, 17, 4)]},
    ),
    one("a gang wider than the cluster", atom(11, 11, 1, 11), Code.CAPACITY),
    one(
        "a height no machine count limits is capped by capacity",
        f"window({atom(1, 99, 1, 30)}, 0, 3)",
        {"0": [(0, 3, 10)]},
    ),
    one(
        "a window shorter than the lease", f"window({atom(1, 1, 10, 10)}, 0, 9)", Code.UNSATISFIABLE
    ),
    one(
        "a window too short for the work at full height",
        f"window({atom(1, 5, 1, 26)}, 0, 5)",
        Code.UNSATISFIABLE,
    ),
    one("a window of no length", f"window({atom(1, 1, 1, 1)}, 5, 5)", Code.MALFORMED),
    one(
        "a window beyond the horizon", f"window({atom(1, 1, 1, 1)}, 200, 300)", Code.BEYOND_HORIZON
    ),
    one(
        "a window that passes the horizon is cut",
        f"window({atom(1, 1, 5, 5)}, 95, 300)",
        {"0": [(95, 100, 1)]},
    ),
    one(
        "a window that was over before submission",
        f"window({atom(1, 1, 1, 1)}, 0, 10)",
        Code.UNSATISFIABLE,
        submitted=50,
    ),
    one("nothing before submission", atom(1, 10, 1, 500), {"": [(50, 100, 10)]}, submitted=49.5),
    one(
        "work that is no whole number of leases",
        f"window({atom(1, 5, 2, 15)}, 0, 3)",
        {"0": [(0, 3, 5)]},
    ),
    one(
        "work that needs trimmed corners",
        f"window({atom(2, 3, 2, 7)}, 0, 3)",
        {"0": [(0, 1, 2), (1, 2, 3), (2, 3, 2)]},
    ),
    one(
        "work that is unreachable takes the next that is",
        f"window({atom(4, 4, 2, 9)}, 0, 3)",
        {"0": [(0, 3, 4)]},
    ),
    one(
        "less work than one lease of the least height",
        f"window({atom(3, 5, 4, 1)}, 0, 4)",
        {"0": [(0, 4, 3)]},
    ),
    one(
        "heights that are multiples",
        f"window({atom(4, 8, 5, 40, ', multiple=4')}, 0, 5)",
        {"0": [(0, 5, 8)]},
    ),
    one(
        "a multiple that the free height cuts down",
        f"window({atom(4, 8, 5, 40, ', multiple=4')}, 0, 10)",
        {"0": [(0, 10, 4)]},
        (0, 10, 3),
    ),
    one("a million steps of window", atom(1, 10, 1000, 100_000), on=cluster(steps=1_000_000)),
    one(
        "half a core a bundle",
        "window(atom(<500m cpu>, 20, 20, 1, 20), 3, 4)",
        {"0": [(3, 4, 20)]},
        on=cluster(MachineGroup("m", 10, CORE)),
    ),
)

LOAD = (
    one(
        "a hole between what stands",
        atom(1, 10, 2, 20),
        {"": [(4, 6, 10)]},
        (0, 4, 10),
        (6, 100, 10),
    ),
    one(
        "a hole shorter than the lease", atom(1, 10, 3, 20), Code.CAPACITY, (0, 4, 10), (6, 100, 10)
    ),
    one(
        "a hole lower than the gang",
        atom(4, 4, 2, 8),
        Code.CAPACITY,
        (0, 4, 10),
        (4, 6, 7),
        (6, 100, 10),
    ),
    one(
        "a hole as high as the gang",
        atom(3, 3, 2, 6),
        {"": [(4, 6, 3)]},
        (0, 4, 10),
        (4, 6, 7),
        (6, 100, 10),
    ),
    one(
        "all that is left, on two levels",
        atom(1, 4, 4, 24),
        {"": [(0, 4, 2), (4, 8, 4)]},
        (0, 4, 8),
        (4, 8, 6),
        (8, 100, 10),
    ),
    one(
        "leases that overlap in a peak",
        f"window({atom(1, 2, 2, 4)}, 0, 3)",
        {"0": [(0, 1, 1), (1, 2, 2), (2, 3, 1)]},
        (0, 1, 9),
        (1, 2, 8),
        (2, 3, 9),
    ),
    one(
        "two holes that only together hold the work",
        atom(1, 5, 3, 30),
        {"": [(10, 13, 5), (20, 23, 5)]},
        (0, 10, 10),
        (10, 13, 5),
        (13, 20, 10),
        (20, 23, 5),
        (23, 100, 10),
    ),
    one(
        "one step of work too much for what is left",
        atom(1, 5, 3, 31),
        Code.CAPACITY,
        (0, 10, 10),
        (10, 13, 5),
        (13, 20, 10),
        (20, 23, 5),
        (23, 100, 10),
    ),
    one("a full cluster", atom(1, 1, 1, 1), Code.CAPACITY, (0, 100, 10)),
)

SHORT = cluster(outages=(Outage("m", (6, 7, 8, 9), 2000, 4000),))
RESOURCES = (
    one(
        "an outage leaves too few for the gang",
        f"window({atom(7, 7, 2, 14)}, 0, 4)",
        {"0": [(0, 2, 7)]},
        on=SHORT,
    ),
    one(
        "an outage of part of a step takes the whole step",
        f"window({atom(10, 10, 1, 30)}, 0, 5)",
        {"0": [(0, 2, 10), (4, 5, 10)]},
        on=cluster(outages=(Outage("m", (0,), 2500, 3100),)),
    ),
    one(
        "outages of one machine that overlap count once",
        f"window({atom(9, 9, 4, 36)}, 0, 4)",
        {"0": [(0, 4, 9)]},
        on=cluster(outages=(Outage("m", (9,), 0, 3000), Outage("m", (9,), 1000, 4000))),
    ),
    one(
        "nothing is up",
        f"window({atom(1, 1, 1, 1)}, 2, 4)",
        Code.CAPACITY,
        on=cluster(outages=(Outage("m", tuple(range(10)), 0, 9000),)),
    ),
    one(
        "memory binds where cores do not",
        "window(atom(<500m cpu, 2 GiB memory>, 1, 20, 1, 20), 0, 2)",
        {"0": [(0, 2, 10)]},
        on=cluster(MachineGroup("w", 5, WIDE)),
    ),
    one(
        "a pool that would hold six, machines that hold five",
        "window(atom(<1 cpu, 3 GiB memory>, 6, 6, 1, 6), 0, 9)",
        Code.CAPACITY,
        on=cluster(MachineGroup("w", 5, WIDE)),
    ),
    one(
        "as many as fit machine by machine",
        "window(atom(<1 cpu, 3 GiB memory>, 1, 6, 1, 10), 0, 2)",
        {"0": [(0, 2, 5)]},
        on=cluster(MachineGroup("w", 5, WIDE)),
    ),
    one("a bundle that no machine holds", "atom(<3 cpu>, 1, 1, 1, 1)", Code.UNSATISFIABLE),
    one("a resource that no machine has", "atom(<1 fpga>, 1, 1, 1, 1)", Code.UNSATISFIABLE),
    one(
        "ten GPU machines are ten places for sixteen cores with a GPU",
        "window(atom(<16 cpu, 1 gpu>, 11, 11, 1, 11), 0, 9)",
        Code.CAPACITY,
        on=cluster(GPUS, PLAIN),
    ),
    one(
        "ten such places can all be had",
        "window(atom(<16 cpu, 1 gpu>, 10, 10, 1, 10), 8, 9)",
        {"0": [(8, 9, 10)]},
        on=cluster(GPUS, PLAIN),
    ),
    one(
        "a label that ten machines carry",
        'window(atom(<16 cpu>, 1, 50, 1, 20, on="gpu"), 0, 2)',
        {"0": [(0, 2, 10)]},
        on=cluster(GPUS, PLAIN),
    ),
    one(
        "more than the labelled machines hold",
        'window(atom(<16 cpu>, 11, 11, 1, 11, on="gpu"), 0, 2)',
        Code.CAPACITY,
        on=cluster(GPUS, PLAIN),
    ),
    one(
        "a label that no machine carries", 'atom(<1 cpu>, 1, 1, 1, 1, on="ssd")', Code.UNSATISFIABLE
    ),
)

ROUNDING = (
    one(
        "lease and work round together",
        "window(atom(<1 cpu>, 1, 1, 90s, 270s), 0, 6m)",
        {"0": [(0, 6, 1)]},
        on=cluster(steps=60, step_ms=60_000),
    ),
    one(
        "windows round inward",
        "window(atom(<1 cpu>, 1, 10, 1m, 10m), 30, 150)",
        {"0": [(1, 2, 10)]},
        on=cluster(steps=60, step_ms=60_000),
    ),
    one(
        "a window with no whole step",
        "window(atom(<1 cpu>, 1, 10, 1, 1), 70, 110)",
        Code.UNSATISFIABLE,
        on=cluster(steps=60, step_ms=60_000),
    ),
)

UNIT, FULL = atom(1, 1, 1, 1), atom(10, 10, 1, 10)
OPERATORS = (
    one(
        "a chain as long as its window",
        f"window(order({atom(5, 5, 4, 20)}, {atom(2, 2, 3, 6)}), 0, 7)",
        {"0.0": [(0, 4, 5)], "0.1": [(4, 7, 2)]},
    ),
    one(
        "a chain longer than its window",
        f"window(order({atom(5, 5, 4, 20)}, {atom(2, 2, 3, 6)}), 0, 6)",
        Code.UNSATISFIABLE,
    ),
    one(
        "a chain that what stands pulls apart",
        f"window(order({FULL}, {FULL}), 0, 9)",
        {"0.0": [(1, 2, 10)], "0.1": [(7, 8, 10)]},
        (0, 1, 1),
        (2, 7, 1),
        (8, 9, 1),
    ),
    one(
        "holes in the wrong order for the chain",
        f"window(order({atom(10, 10, 2, 20)}, {FULL}), 0, 9)",
        Code.CAPACITY,
        (1, 6, 1),
        (8, 9, 1),
    ),
    one(
        "a chain with a least gap",
        f"window(order({UNIT}, {UNIT}, gap=3), 0, 5)",
        {"0.0": [(0, 1, 1)], "0.1": [(4, 5, 1)]},
    ),
    one(
        "a gap that does not fit", f"window(order({UNIT}, {UNIT}, gap=4), 0, 5)", Code.UNSATISFIABLE
    ),
    one(
        "without a gap, the late stage steps back to the early one",
        f"window(order({atom(10, 10, 2, 20)}, {atom(10, 10, 2, 20)}, gap=0..0), 0, 20)",
        {"0.0": [(5, 7, 10)], "0.1": [(7, 9, 10)]},
        (2, 5, 1),
        (9, 17, 1),
        (19, 20, 1),
    ),
    one(
        "no two holes touch, so no chain without a gap",
        f"window(order({atom(10, 10, 2, 20)}, {atom(10, 10, 2, 20)}, gap=0..0), 0, 20)",
        Code.CAPACITY,
        (2, 5, 1),
        (7, 17, 1),
        (19, 20, 1),
    ),
    one(
        "a largest gap that holes two apart keep",
        f"window(order({FULL}, {FULL}, gap=0..2), 0, 20)",
        {"0.0": [(3, 4, 10)], "0.1": [(6, 7, 10)]},
        (0, 3, 1),
        (4, 6, 1),
        (7, 19, 1),
    ),
    one(
        "siblings that share the window",
        f"window(all({atom(6, 6, 1, 6)}, {atom(6, 6, 1, 6)}), 0, 2)",
    ),
    one(
        "siblings that fit one by one, not together",
        f"window(all({atom(6, 6, 1, 6)}, {atom(6, 6, 1, 6)}), 0, 1)",
        Code.CAPACITY,
    ),
    one(
        "siblings side by side",
        f"window(all({atom(6, 6, 3, 18)}, {atom(4, 4, 3, 12)}), 2, 5)",
        {"0.0": [(2, 5, 6)], "0.1": [(2, 5, 4)]},
    ),
    one(
        "a gang between siblings that bend",
        f"window(all({atom(1, 10, 1, 15)}, {atom(5, 5, 1, 5)}), 0, 2)",
    ),
    one(
        "an option wider than the cluster, and another",
        f"any({atom(11, 11, 1, 11)}, {atom(4, 4, 1, 4)})",
        choices={"": 1},
    ),
    one(
        "an option too long for the window, and another",
        f"window(any({atom(1, 1, 9, 9)}, {atom(2, 2, 3, 6)}), 0, 3)",
        {"0.1": [(0, 3, 2)]},
        choices={"0": 1},
    ),
    one(
        "options none of which fits",
        f"any({atom(11, 11, 1, 11)}, {atom(12, 12, 1, 12)})",
        Code.CAPACITY,
    ),
    one(
        "an option that leaves no room for what precedes",
        f"window(order({atom(1, 1, 5, 5)}, any({atom(1, 1, 8, 8)}, {atom(1, 1, 3, 3)})), 0, 8)",
        {"0.0": [(0, 5, 1)], "0.1.1": [(5, 8, 1)]},
        choices={"0.1": 1},
    ),
    one(
        "an option that fits alone but not beside its sibling",
        f"window(all(any({atom(8, 8, 1, 8)}, {atom(4, 4, 1, 4)}), {atom(6, 6, 1, 6)}), 0, 1)",
        {"0.0.1": [(0, 1, 4)], "0.1": [(0, 1, 6)]},
        choices={"0.0": 1},
    ),
    one(
        "an option of several atoms",
        f"window(any({FULL}, all({UNIT}, {UNIT})), 0, 1)",
        {"0.1.0": [(0, 1, 1)], "0.1.1": [(0, 1, 1)]},
        (0, 1, 8),
        choices={"0": 1},
    ),
    one(
        "an any inside an any",
        f"window(any({atom(11, 11, 1, 11)}, any({FULL}, {UNIT})), 0, 1)",
        {"0.1.1": [(0, 1, 1)]},
        (0, 1, 9),
        choices={"0": 1, "0.1": 1},
    ),
    one(
        "a diamond as long as its window",
        f"window(graph(a: {UNIT}, b: {UNIT}, c: {UNIT}, d: {UNIT}; "
        "a -> b, a -> c, b -> d, c -> d), 4, 7)",
        {"0.0": [(4, 5, 1)], "0.1": [(5, 6, 1)], "0.2": [(5, 6, 1)], "0.3": [(6, 7, 1)]},
    ),
    one(
        "a graph that no orders and alls can say",
        f"window(graph(a: {UNIT}, b: {FULL}, c: {FULL}, d: {UNIT}; a -> c, b -> c, b -> d), 0, 2)",
        Code.CAPACITY,
        (1, 2, 1),
    ),
    one(
        "the same graph with room",
        f"window(graph(a: {UNIT}, b: {atom(9, 9, 1, 9)}, c: {atom(9, 9, 1, 9)}, d: {UNIT}; "
        "a -> c, b -> c, b -> d), 0, 2)",
        {"0.0": [(0, 1, 1)], "0.1": [(0, 1, 9)], "0.2": [(1, 2, 9)], "0.3": [(1, 2, 1)]},
    ),
    one(
        "a graph with a gap on one arrow",
        f"window(graph(a: {UNIT}, b: {UNIT}, c: {UNIT}; a -> c, b -> c gap=2), 0, 4)",
    ),
    one(
        "windows inside windows",
        f"window(window(window({UNIT}, 0, 50), 20, 90), 10, 21)",
        {"0.0.0": [(20, 21, 1)]},
    ),
    one(
        "a window inside a chain",
        f"window(order(window({FULL}, 3, 4), {FULL}), 0, 5)",
        {"0.0.0": [(3, 4, 10)], "0.1": [(4, 5, 10)]},
    ),
    one("a best-effort session", "void(<1 cpu>, 5)", {}),
    one(
        "a best-effort session beside an atom",
        f"window(all(void(<1 cpu>, 5), {UNIT}), 0, 1)",
        {"0.1": [(0, 1, 1)]},
        (0, 1, 9),
    ),
    one("a best-effort session on a full cluster", "void(<1 cpu>, 5)", {}, (0, 100, 10)),
)


def daily(*hours: int) -> dict[str, Rows]:
    """Return ten cores for one hour in each occurrence of a window inside an `every`."""
    return {f"0@{k}.0": [(hour, hour + 1, 10)] for k, hour in enumerate(hours)}


PARIS = cluster(steps=24 * 7, step_ms=HOUR, origin=datetime(2026, 3, 26, 23, tzinfo=UTC))
EVERY = (
    one(
        "three times, each in its window",
        f"every(10, window({atom(10, 10, 2, 20)}, 0, 2), times=3)",
        {f"0@{k}.0": [(10 * k, 10 * k + 2, 10)] for k in range(3)},
    ),
    one(
        "one offset that suits all periods",
        f"every(10, {atom(10, 10, 5, 50)}, times=3)",
        {f"0@{k}": [(10 * k + 5, 10 * k + 10, 10)] for k in range(3)},
        (12, 15, 1),
    ),
    one(
        "no offset suits both periods",
        f"every(10, {atom(10, 10, 5, 50)}, times=2)",
        Code.CAPACITY,
        (0, 5, 1),
        (15, 20, 1),
    ),
    one(
        "each period its own offset",
        f"every(10, {atom(10, 10, 5, 50)}, times=2, same_offset=false)",
        {"0@0": [(5, 10, 10)], "0@1": [(10, 15, 10)]},
        (0, 5, 1),
        (15, 20, 1),
    ),
    one(
        "periods count from submission",
        f"every(10, {atom(1, 1, 10, 10)}, times=2)",
        {"0@0": [(7, 17, 1)], "0@1": [(17, 27, 1)]},
        submitted=7,
    ),
    one(
        "periods count from the window",
        f"window(every(10, {atom(1, 1, 10, 10)}, times=2), 13, 60)",
        {"0.0@0": [(13, 23, 1)], "0.0@1": [(23, 33, 1)]},
    ),
    one(
        "periods count from the anchor",
        f"every(10, {atom(1, 1, 10, 10)}, times=2, anchor=40)",
        {"0@0": [(40, 50, 1)], "0@1": [(50, 60, 1)]},
    ),
    one(
        "until an instant",
        f"every(10, {atom(1, 1, 10, 10)}, until=35)",
        {f"0@{k}": [(10 * k, 10 * k + 10, 1)] for k in range(3)},
    ),
    one("more often than the horizon holds", f"every(10, {UNIT}, times=11)", Code.BEYOND_HORIZON),
    one(
        "endless",
        f"every(20, {atom(1, 1, 20, 20)})",
        {f"0@{k}": [(20 * k, 20 * k + 20, 1)] for k in range(5)},
    ),
    one("endless, with one period full", f"every(20, {UNIT})", Code.CAPACITY, (60, 80, 10)),
    one(
        "a chain that recurs",
        f"every(10, window(order({FULL}, {FULL}), 0, 2), times=2)",
        {
            "0@0.0.0": [(0, 1, 10)],
            "0@0.0.1": [(1, 2, 10)],
            "0@1.0.0": [(10, 11, 10)],
            "0@1.0.1": [(11, 12, 10)],
        },
    ),
    one(
        "something after the last of what recurs",
        f"window(order(every(5, {FULL}, times=2), {FULL}), 0, 7)",
        {"0.0.0@0": [(0, 1, 10)], "0.0.0@1": [(5, 6, 10)], "0.1": [(6, 7, 10)]},
    ),
    one("a choice that recurs", f"every(10, any({atom(11, 11, 1, 11)}, {UNIT}), times=2)"),
    one(
        "civil days across a change of the clock",
        'every(1d, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 10h), times=4, zone="Europe/Paris", '
        "same_offset=false)",
        daily(9, 33, 56, 80),
        on=PARIS,
    ),
    one(
        "one offset across a change of the clock",
        'every(1d, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 11h), times=4, zone="Europe/Paris")',
        daily(9, 33, 57, 80),
        on=PARIS,
    ),
)

BATCHES = (
    Scenario(
        "the larger priority comes first",
        (
            Ask(f"window({FULL}, 0, 1)", Code.CAPACITY, priority=1),
            Ask(f"window({FULL}, 0, 1)", rows={"0": [(0, 1, 10)]}, priority=2),
        ),
    ),
    Scenario(
        "at equal priority the earlier submission comes first",
        (
            Ask(f"window({FULL}, 5, 6)", Code.CAPACITY, submitted=3),
            Ask(f"window({FULL}, 5, 6)", rows={"0": [(5, 6, 10)]}, submitted=2),
        ),
    ),
    Scenario(
        "a refused request leaves nothing behind",
        (
            Ask(f"window(order({FULL}, {atom(11, 11, 1, 11)}), 0, 2)", Code.CAPACITY, priority=1),
            Ask(f"window({atom(10, 10, 2, 20)}, 0, 2)", rows={"0": [(0, 2, 10)]}),
        ),
    ),
    Scenario(
        "requests that cannot be compiled do not disturb the others",
        (
            Ask(f"window({FULL}, 0, 0)", Code.MALFORMED),
            Ask("atom(", Code.MALFORMED),
            Ask(f"window({FULL}, 0, 1)", rows={"0": [(0, 1, 10)]}),
        ),
    ),
    Scenario(
        "a weight of nothing is a request like any other",
        (
            Ask(f"window({atom(5, 5, 1, 5)}, 0, 1)", rows={"0": [(0, 1, 5)]}, weight=0.0),
            Ask(f"window({atom(5, 5, 1, 5)}, 0, 1)", rows={"0": [(0, 1, 5)]}),
        ),
    ),
    Scenario("no requests at all", ()),
)


def ruled(*policies: CapacityOverTime | Quota, steps: int = 100, **rest: object) -> Cluster:
    """Return ten cores under policies."""
    return cluster(steps=steps, policies=policies, **rest)


EACH = Scope(tenant="*")
HALF = ruled(CapacityOverTime("share", EACH, instant=Decimal("0.5")))
QUARTER = ruled(CapacityOverTime("mean", EACH, average=Decimal("0.25"), window_ms=20 * SECOND))
OFFICE = cluster(
    steps=24,
    step_ms=HOUR,
    origin=datetime(2026, 1, 5, tzinfo=UTC),
    policies=(Quota("office", EACH, (("cpu", 2000),), time(8), time(18)),),
)
POLICIES = (
    Scenario(
        "a quota of five cores",
        (
            Ask(atom(6, 6, 1, 6), Code.QUOTA),
            Ask(f"window({atom(1, 10, 1, 10)}, 0, 2)", rows={"0": [(0, 2, 5)]}),
        ),
        ruled(Quota("five", EACH, (("cpu", 5000),))),
    ),
    Scenario(
        "each tenant half, whatever the others leave",
        (
            Ask(f"window({atom(1, 10, 1, 10)}, 0, 2)", rows={"0": [(0, 2, 5)]}, tenant="ads"),
            Ask(f"window({atom(1, 4, 1, 8)}, 0, 2)", rows={"0": [(0, 2, 4)]}, tenant="ml"),
            Ask(f"window({UNIT}, 0, 2)", Code.CAPACITY_OVER_TIME, tenant="ads", submitted=0.5),
        ),
        HALF,
    ),
    Scenario(
        "outside office hours there is more",
        (
            Ask("window(atom(<1 cpu>, 3, 3, 1h, 3h), 8h, 18h)", Code.QUOTA),
            Ask("window(atom(<1 cpu>, 10, 10, 1h, 10h), 7h, 9h)", rows={"0": [(7, 8, 10)]}),
        ),
        OFFICE,
    ),
    Scenario(
        "a quarter on average is all for a quarter of the window",
        (
            Ask(f"window({atom(10, 10, 5, 50)}, 40, 45)", rows={"0": [(40, 45, 10)]}),
            Ask(f"window({UNIT}, 40, 60)", Code.CAPACITY_OVER_TIME, submitted=0.5),
            Ask(f"window({UNIT}, 45, 60)", Code.CAPACITY_OVER_TIME, submitted=0.5),
            Ask(
                f"window({atom(10, 10, 1, 10)}, 60, 61)", rows={"0": [(60, 61, 10)]}, submitted=0.5
            ),
        ),
        QUARTER,
    ),
    Scenario(
        "more than the average in any window",
        (Ask(f"window({atom(10, 10, 6, 60)}, 0, 90)", Code.CAPACITY_OVER_TIME),),
        QUARTER,
    ),
)

SCENARIOS = (
    *ATOMS,
    *LOAD,
    *RESOURCES,
    *ROUNDING,
    *OPERATORS,
    *EVERY,
    *BATCHES,
    *POLICIES,
)

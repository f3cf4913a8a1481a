"""Outages, machines of several resources, labels, and times that are no whole steps."""

from __future__ import annotations

from planner.cluster.cluster import MachineGroup, Outage
from planner.placement import Code
from rdl.resources import Resources
from tests.contract.scenarios.language import atom, cluster, one

GPU_MACHINE = Resources.of({"cpu": 16_000, "gpu": 8})
PLAIN_MACHINE = Resources.of({"cpu": 16_000})
GPUS = MachineGroup("gpu", 10, GPU_MACHINE, frozenset({"gpu"}))
PLAIN = MachineGroup("plain", 40, PLAIN_MACHINE)
WIDE = Resources.of({"cpu": 2000, "memory": 4096})

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
    one(
        "one bundle on each of five machines that hold two",
        "window(atom(<1 cpu>, 1, 10, 1, 10, spread=1), 0, 2)",
        {"0": [(0, 2, 5)]},
        on=cluster(MachineGroup("w", 5, WIDE)),
    ),
    one(
        "three replicas and two racks",
        "window(atom(<1 cpu>, 3, 3, 1, 3, spread=1, by=rack), 0, 2)",
        Code.UNSATISFIABLE,
        on=cluster(
            MachineGroup("v", 5, WIDE, domains=(("rack", "r1"),)),
            MachineGroup("w", 5, WIDE, domains=(("rack", "r2"),)),
        ),
    ),
    one(
        "more in one rack than any rack holds",
        "window(atom(<1 cpu>, 11, 11, 1, 11, within=rack), 0, 2)",
        Code.UNSATISFIABLE,
        on=cluster(
            MachineGroup("v", 5, WIDE, domains=(("rack", "r1"),)),
            MachineGroup("w", 4, WIDE, domains=(("rack", "r2"),)),
        ),
    ),
    one(
        "work in one rack has no more bundles at once than the largest rack holds",
        "window(atom(<1 cpu>, 1, 18, 1, 20, within=rack), 0, 2)",
        {"0": [(0, 2, 10)]},
        on=cluster(
            MachineGroup("v", 5, WIDE, domains=(("rack", "r1"),)),
            MachineGroup("w", 4, WIDE, domains=(("rack", "r2"),)),
        ),
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

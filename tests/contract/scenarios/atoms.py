"""One atom alone: its shape, its window, and the context of it."""

from __future__ import annotations

from planner.cluster.cluster import MachineGroup
from planner.placement import Code
from tests.contract.scenarios.language import CORE, atom, cluster, one

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

"""Gangs of different bundles that start and end at the same time."""

from __future__ import annotations

from planner.cluster.cluster import MachineGroup
from planner.placement import Code
from rdl.resources import Resources
from tests.contract.scenarios.language import cluster, one

_PAIR = "together(atom(<1 cpu>, 4, 4, 3, 12), atom(<1 cpu>, 6, 6, 3, 18))"
_MIXED = cluster(
    MachineGroup("plain", 4, Resources.of({"cpu": 4000})),
    MachineGroup(
        "fast", 2, Resources.of({"cpu": 4000, "gpu": 2}), labels=frozenset({"fast"})
    ),
    steps=20,
)  # fmt: skip
_JOB = "driver: atom(<1 cpu>, 1, 1, 4, 4), workers: atom(<2 cpu, 1 gpu>, 4, 4, 4, 16)"
_RACK = "together(atom(<2 cpu>, 1, 1, 4, 4), atom(<1 cpu>, 4, 4, 4, 16), within=rack)"
_RACKS = cluster(
    MachineGroup("v", 2, Resources.of({"cpu": 4000}), domains=(("rack", "r1"),)),
    MachineGroup("w", 1, Resources.of({"cpu": 4000}), domains=(("rack", "r2"),)),
    steps=20,
)  # fmt: skip

TOGETHERS = (
    one("two gangs together fill the only hole", f"window({_PAIR}, 0, 9)",
        {"0.0": [(3, 6, 4)], "0.1": [(3, 6, 6)]}, (0, 3, 1), (6, 9, 1)),
    one("two holes for one gang each are none for both together", f"window({_PAIR}, 0, 9)",
        Code.CAPACITY, (0, 3, 5), (3, 9, 1)),
    one("together is as long as its window", f"window({_PAIR}, 2, 5)",
        {"0.0": [(2, 5, 4)], "0.1": [(2, 5, 6)]}),
    one("together is longer than its window", f"window({_PAIR}, 0, 2)", Code.UNSATISFIABLE),
    one("a chain with together in it", f"window(order({_PAIR}, {_PAIR}, gap=1..1), 0, 7)",
        {"0.0.0": [(0, 3, 4)], "0.0.1": [(0, 3, 6)], "0.1.0": [(4, 7, 4)], "0.1.1": [(4, 7, 6)]}),
    one("an option that holds together is taken where the other does not fit",
        f"window(any(atom(<1 cpu>, 10, 10, 4, 40), {_PAIR}), 0, 3)",
        {"0.1.0": [(0, 3, 4)], "0.1.1": [(0, 3, 6)]}, choices={"0": 1}),
    one("together in every period", f"window(every(5, {_PAIR}, times=2), 0, 10)",
        {f"0.0@{k}.{i}": [(5 * k + 1, 5 * k + 4, n)] for k in (0, 1) for i, n in ((0, 4), (1, 6))},
        (0, 1, 1), (4, 5, 1)),
    one("a driver anywhere and workers with all GPUs", f"window(together({_JOB}), 0, 4)",
        {"0.0": [(0, 4, 1)], "0.1": [(0, 4, 4)]}, on=_MIXED),
    one("members with labels of their own",
        'window(together(atom(<4 cpu>, 2, 2, 4, 8, on="fast"), atom(<4 cpu>, 4, 4, 4, 16)), 0, 4)',
        {"0.0": [(0, 4, 2)], "0.1": [(0, 4, 4)]}, on=_MIXED),
    one("all in one rack", f"window({_RACK}, 0, 4)",
        {"0.0": [(0, 4, 1)], "0.1": [(0, 4, 4)]}, on=_RACKS),
    one("all in one rack, of which none holds all",
        f"window({_RACK.replace('4, 4, 4, 16', '8, 8, 4, 32')}, 0, 9)",
        Code.UNSATISFIABLE, on=_RACKS),
    one("more with a label than there is",
        'window(together(atom(<4 cpu>, 2, 2, 4, 8, on="fast"), '
        'atom(<4 cpu>, 1, 1, 4, 4, on="fast")), 0, 9)', Code.CAPACITY, on=_MIXED),
)  # fmt: skip

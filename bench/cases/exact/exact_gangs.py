"""`exact_gangs`: rigid gangs, lumpy, narrow and with wide windows.

The gangs are those of bench/workloads/exact_shapes.py, and the first 300, 600 and 1,500 jobs of the
KTH's log, which are skipped where AGENDA_TRACES names no folder.

Target: narrow windows proven optimal within 10 s; wide windows 4 % within 60 s, mean of 5 seeds.
Lumpy sets reach the first on all ten seeds, narrow ones (ten gangs at once) on four at most,
divided by 4 on one of five (docs/results/exact.md).
"""

from __future__ import annotations

from typing import Final

from bench.cases.exact.runs import figures_of, run_exact, warm
from bench.workloads.exact_shapes import divided, lumpy, narrow, wide
from bench.workloads.traces import SKIPPED, kth_gangs, traces_folder
from planner.cluster.cluster import Cluster
from planner.request import Request
from planner.workload.compile import compile_workload

NAME = "exact_gangs"


def recorded(_seed: int, requests: float) -> tuple[Cluster, list[Request]]:
    """Return the first jobs of the KTH's log, on its 100 processors."""
    folder = traces_folder()
    assert folder is not None
    day = kth_gangs(folder, int(requests))
    return day.cluster, list(compile_workload(day.lines, day.cluster).requests)


#: What is run: shape, load (or by how much the cluster is divided), seconds.
SHAPES: Final = {
    "lumpy 1.2": (lumpy, 1.2, 10.0),
    "narrow 1.2": (narrow, 1.2, 10.0),
    "divided 3": (divided, 3.0, 10.0),
    "divided 4": (divided, 4.0, 10.0),
    "divided 8": (divided, 8.0, 10.0),
    "wide 0.8": (wide, 0.8, 60.0),
    "wide 1.2": (wide, 1.2, 60.0),
    "kth 300": (recorded, 300, 60.0),
    "kth 600": (recorded, 600, 60.0),
    "kth 1500": (recorded, 1500, 60.0),
}
TEN: Final = tuple(range(1, 11))
SEEDS: Final = {"lumpy": TEN, "narrow": TEN, "divided": TEN, "wide": (1, 2, 3, 4, 5), "kth": (1,)}
MARKS: Final = (1.0, 5.0, 10.0, 60.0)


def run(small: bool) -> dict[str, object]:
    """Run every shape and seed; small: one of each for a second."""
    names = ("narrow 1.2", "wide 1.2") if small else tuple(SHAPES)
    return {
        "params": {"shapes": names, "requests": 100, "steps": 1440},
        "figures": {
            name: SKIPPED
            if SHAPES[name][0] is recorded and traces_folder() is None
            else of_shape(name, small)
            for name in names
        },
    }


def of_shape(name: str, small: bool) -> dict[str, object]:
    """Return the figures of one shape over its seeds."""
    shape, load, seconds = SHAPES[name]
    seeds = SEEDS[name.split(" ")[0]][: 1 if small else None]
    cluster, requests = shape(1, load)
    warm(cluster, requests[:10])
    curves = [run_exact(*shape(seed, load), 1.0 if small else seconds, 0.0) for seed in seeds]
    return figures_of(curves, MARKS)

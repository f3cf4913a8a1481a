"""The kinds of requests of the example day in RDL; shares, shapes and slack are our own choice.

Each function returns a request and the seconds it takes alone on the example cluster, from which
the deadline is computed (slack U[0.1, 3] of that time, as in the importers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from service.example_day.facts import (
    INPUT_BYTES,
    MAP_ONLY,
    SHUFFLE_RATIO,
    draw_between,
    draw_one,
    draw_quantile,
    draw_whole,
)

Rdl: TypeAlias = dict[str, object]

STEP_S = 60
_MIB = 1 << 20
_CONTAINERS = 500  # most concurrent containers of a stage: half of the cluster
_STEP_BYTES = 64 * _MIB  # handled by a container per step: about 1 MiB per second
_TASK_BYTES = 128 * _MIB
_REDUCE_BYTES = 1024 * _MIB


@dataclass(frozen=True, slots=True)
class Wish:
    """One request without its window.

    Attributes
    ----------
    rdl
        The request, without its window.
    alone_s
        Seconds it takes alone, on the grid.
    tight
        Whether the window is exactly as long as the allocation.
    """

    rdl: Rdl
    alone_s: int
    tight: bool = False


Kind: TypeAlias = Callable[[np.random.Generator], Wish]


def _atom(bundle: Mapping[str, object], least: int, most: int, lease_s: int, work_s: int) -> Rdl:
    return {
        "atom": {
            "bundle": dict(bundle),
            "min": least,
            "max": most,
            "lease": lease_s,
            "work": work_s,
        }
    }


def _tasks(size: float, per_task: int, memory: str) -> Wish:
    """Return equal tasks that handle 64 MiB per step, in whole steps, and in waves if needed."""
    count = max(1, -(-int(size) // per_task))
    lease = max(1, -(-int(size) // (count * _STEP_BYTES))) * STEP_S
    width = min(count, _CONTAINERS)
    alone = -(-count // width) * lease
    return Wish(_atom({"cpu": 1, "memory": memory}, 1, width, lease, count * lease), alone)


def _in_order(wishes: list[Wish], gap_s: tuple[int, int] | None = None) -> Wish:
    """Return the requests in sequence; of a gap range, only the minimum counts as time alone."""
    rdl: Rdl = {"order": [wish.rdl for wish in wishes]}
    least = 0
    if gap_s is not None:
        rdl["gap"] = list(gap_s)
        least = gap_s[0] * (len(wishes) - 1)
    return Wish(rdl, sum(wish.alone_s for wish in wishes) + least)


def map_reduce(generator: np.random.Generator) -> Wish:
    """A MapReduce job with sizes from the published quantiles."""
    size = draw_quantile(INPUT_BYTES, generator)
    maps = _tasks(size, _TASK_BYTES, "2 GiB")
    if float(generator.random()) < MAP_ONLY:
        return maps
    ratio = draw_quantile(SHUFFLE_RATIO, generator)
    return _in_order([maps, _tasks(max(1.0, size * ratio), _REDUCE_BYTES, "2 GiB")])


def pipeline(generator: np.random.Generator) -> Wish:
    """Three to six stages that shrink or grow, each starting within an hour of the previous."""
    size = draw_quantile(INPUT_BYTES[:-2], generator)
    stages = []
    for _ in range(draw_whole(3, 6, generator)):
        stages.append(_tasks(size, _TASK_BYTES, "2 GiB"))
        size = max(1e8, size * draw_between(0.3, 1.2, generator))
    return _in_order(stages, (0, 3600))


def fork_join(generator: np.random.Generator) -> Wish:
    """A graph: one extract stage, two to four parallel transforms, one publish stage."""
    size = draw_quantile(INPUT_BYTES[:-2], generator)
    branches = draw_whole(2, 4, generator)
    extract = _tasks(size, _TASK_BYTES, "2 GiB")
    sides = [
        _tasks(size * draw_between(0.2, 0.8, generator), _TASK_BYTES, "4 GiB")
        for _ in range(branches)
    ]
    publish = _tasks(size * 0.1, _TASK_BYTES, "2 GiB")
    names: Rdl = {f"transform{index}": side.rdl for index, side in enumerate(sides)}
    edges = [["extract", name] for name in names] + [[name, "publish"] for name in names]
    rdl = {"nodes": {"extract": extract.rdl, **names, "publish": publish.rdl}, "edges": edges}
    longest = sum(side.alone_s for side in sides)
    return Wish({"graph": rdl}, extract.alone_s + longest + publish.alone_s)


def gang(generator: np.random.Generator) -> Wish:
    """A computation with 16 to 256 workers that all run at the same time (Giraph-like)."""
    workers = 16 * draw_whole(1, 16, generator)
    lease = 600 * draw_whole(1, 12, generator)
    bundle = {"cpu": 1, "memory": draw_one((("4 GiB", 0.7), ("8 GiB", 0.3)), generator)}
    return Wish(_atom(bundle, workers, workers, lease, workers * lease), lease)


def training(generator: np.random.Generator) -> Wish:
    """A gang on GPU machines: model training."""
    workers = draw_one(((2, 0.3), (4, 0.4), (8, 0.2), (16, 0.1)), generator)
    lease = 1800 * draw_whole(1, 6, generator)
    return Wish(_on_gpu(workers, lease), lease)


def either_way(generator: np.random.Generator) -> Wish:
    """Training on GPUs, or for 0.7 of the value on many more cores for twice as long."""
    workers = draw_one(((2, 0.4), (4, 0.4), (8, 0.2)), generator)
    lease = 1800 * draw_whole(1, 4, generator)
    cores = workers * 16
    plain = _atom({"cpu": 1, "memory": "2 GiB"}, cores, cores, 2 * lease, cores * 2 * lease)
    return Wish({"any": [_on_gpu(workers, lease), plain], "prefer": [1.0, 0.7]}, 2 * lease)


def _on_gpu(workers: int, lease_s: int) -> Rdl:
    rdl = _atom({"cpu": 4, "memory": "32 GiB", "gpu": 1}, workers, workers, lease_s, 0)
    body = rdl["atom"]
    assert isinstance(body, dict)
    body["work"] = workers * lease_s
    body["on"] = "gpu"
    return rdl


def dashboard(generator: np.random.Generator) -> Wish:
    """The same small job every hour or two of the working day."""
    period = draw_one(((3600, 0.6), (7200, 0.4)), generator)
    times = draw_whole(3, 6, generator)
    width = draw_whole(20, 120, generator)
    lease = 60 * draw_whole(3, 10, generator)
    atom = _atom({"cpu": 1, "memory": "2 GiB"}, 1, width, lease, width * lease)
    inside = {"window": {"start": 0, "end": period // 2, "of": atom}}
    return Wish({"every": {"period": period, "times": times, "of": inside}}, period * times, True)


def session(generator: np.random.Generator) -> Wish:
    """A service that holds its containers for hours, without slack."""
    workers = draw_whole(8, 48, generator)
    lease = 3600 * draw_whole(2, 8, generator)
    bundle = {"cpu": 2, "memory": "8 GiB"}
    return Wish(_atom(bundle, workers, workers, lease, workers * lease), lease, True)

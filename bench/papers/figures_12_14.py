"""`figures_12_14`: Rayon's Figures 12 and 14, agents on growing sets and on harder mixes.

Figure 12: atoms on a cluster that grows with them. Figure 14: 100 requests, from malleable atoms to
gangs and from malleable atoms to workflows. One generator (bench/workloads/generator.py), T = 120
steps, load 1.2. `milp-cold` is the agent `milp` without its greedy start and filling, as the
paper's was: what the solver finds by itself. `milp` starts from the best greedy plan, and is never
below it.

At full length this takes most of an hour; `python -m bench.papers.figures_12_14 --seed 1 --figure
12 --out FILE` runs a piece (`--agents`: of some agents), and `--draw FOLDER FILE...` draws what
pieces found and prints the table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.papers.figures_drawn import AGENTS, draw
from bench.papers.rayon_planning import planning_trial, trial_agent
from bench.workloads.generator import Mix, cluster_of, compiled, generate
from planner.agent import Limits
from planner.cluster.cluster import Cluster
from planner.request import Request
from planner.workload.warm_up import load_kernels

NAME = "figures_12_14"

STEPS: Final = 120
LOAD: Final = 1.2
SIZES: Final = (100, 300, 1000)
SHARES: Final = (10, 20, 50, 100)
REQUESTS: Final = 100

#: Seconds of each agent that takes all it is given.
SECONDS: Final = {"milp-cold": 15.0, "milp": 15.0, "exact": 5.0, "hybrid": 5.0}


def run(small: bool) -> dict[str, object]:
    """Run both figures; small: two points of one seed with a second for each agent."""
    seeds = (1,) if small else (1, 2, 3)
    scale = 0.05 if small else 1.0
    points = [
        point
        for seed in seeds
        for point in (
            *figure_12(seed, SIZES[:1] if small else SIZES, Cast(scale=scale)),
            *figure_14(seed, SHARES[-1:] if small else SHARES, Cast(scale=scale)),
        )
    ]
    params = {"steps": STEPS, "load": LOAD, "seeds": seeds, "seconds": SECONDS, "scale": scale}
    return {"params": params, "figures": {"points": points}}


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part, and the part of their seconds that they get."""

    names: Sequence[str] = AGENTS
    scale: float = 1.0


def figure_12(seed: int, sizes: Sequence[int], cast: Cast) -> Iterable[dict[str, Any]]:
    """Yield a point for each number of atoms, four machines an atom."""
    for count in sizes:
        mix = Mix(count, STEPS, 4 * count, "malleable", seed, LOAD)
        requests = compiled(generate(mix), mix)
        label = {"figure": "12", "kind": "atoms", "x": count, "seed": seed}
        yield _point(label, cluster_of(mix), requests, cast)


def figure_14(seed: int, shares: Sequence[int], cast: Cast) -> Iterable[dict[str, Any]]:
    """Yield a point for each share (per cent) of gangs, then of workflows, and none of either."""
    cluster = cluster_of(Mix(REQUESTS, STEPS, 4 * REQUESTS))
    points = [("none", 0), *((kind, s) for kind in ("gangs", "workflows") for s in shares)]
    for kind, share in points:
        label = {"figure": "14", "kind": kind, "x": share, "seed": seed}
        requests = blended("gangs" if kind == "none" else kind, share, seed)
        yield _point(label, cluster, requests, cast)


def blended(kind: str, share: int, seed: int) -> list[Request]:
    """Return 100 requests, `share` of them of a kind and the rest malleable, shuffled."""
    asked = []
    for part, count in ((kind, share), ("malleable", REQUESTS - share)):
        if count:
            load = LOAD * count / REQUESTS
            asked += generate(Mix(count, STEPS, 4 * REQUESTS, part, seed, load))
    order = np.random.default_rng(seed).permutation(len(asked))
    mix = Mix(REQUESTS, STEPS, 4 * REQUESTS, seed=seed)
    return compiled([asked[index] for index in order.tolist()], mix)


def _point(
    label: Mapping[str, Any], cluster: Cluster, requests: list[Request], cast: Cast
) -> dict[str, Any]:
    """Return what every agent made of one set."""
    load_kernels()
    found = {
        name: _measured(name, cluster, requests, SECONDS.get(name, 0.0) * cast.scale)
        for name in cast.names
    }
    return {**label, "agents": found}


def _measured(
    name: str, cluster: Cluster, requests: list[Request], seconds: float
) -> dict[str, Any]:
    limits = Limits(time_s=seconds or None, seed=1)
    trial = planning_trial(trial_agent(name), cluster, requests, limits)
    figures, report = trial.metrics, trial.report
    return {
        "seconds": round(trial.seconds, 4),
        "acceptance": figures.acceptance,
        "falls": figures.falls,
        "uniformity": figures.uniformity,
        "gap": figures.gap,
        "source": None if report is None else report.source,
        "status": None if report is None else report.status,
    }


def main() -> None:
    """Run a piece, or draw what pieces found and print their table."""
    parser = argparse.ArgumentParser(prog="python -m bench.papers.figures_12_14")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figure", choices=("12", "14"), default="12")
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    parser.add_argument("--agents", default=",".join(AGENTS), help="some of them, for a piece")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", type=Path, help="folder for the two pictures")
    parser.add_argument("pieces", nargs="*", type=Path)
    options = parser.parse_args()
    if options.draw is not None:
        points = [json.loads(line) for file in options.pieces for line in file.open()]
        draw(points, options.draw)
        return
    shares = [int(share) for share in options.shares.split(",")]
    first, cast = options.figure == "12", Cast(options.agents.split(","))
    seed = options.seed
    for point in figure_12(seed, SIZES, cast) if first else figure_14(seed, shares, cast):
        text = json.dumps(point)
        print(text, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()

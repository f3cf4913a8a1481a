"""The shape of Zoe's section 6: two generations of Zoe on ten servers, 100 applications, FIFO.

Components, counts, memory, the 80/20 mix and the gaps (Gaussian, 60 s and 40 s) are the paper's.
It gives no run times and no cores of a TensorFlow worker: lognormal run times with a median of
180 s, which offer about what the servers can do, and 4 cores are ours.
"""

from __future__ import annotations

import numpy as np

from dispatch.pool.claims import Claim, ClaimPart
from dispatch.simulation.cluster.generator import BATCH_ELASTIC, BATCH_RIGID, ZoeWorkload
from dispatch.simulation.cluster.workload import Submission
from dispatch.simulation.experiments.zoe.runs import ExperimentDesign, Variant

SERVERS = ZoeWorkload(applications=100, interactive=0.0, rigid=0.2, machines=10)
SEEDS = tuple(range(1, 11))
MEDIAN_RUN_S, RUN_SPREAD = 180.0, 0.5
_GIB = 1024


def cluster_design() -> ExperimentDesign:
    """Flexible against rigid on the paper's ten servers (journal, section 6, figure 10)."""
    rigid, flexible = Variant("rigid", "fifo"), Variant("flexible", "fifo")
    ratios = {
        f"{label} median turnaround, flexible / rigid": (
            flexible,
            rigid,
            f"{label} turnaround median_s",
        )
        for label in (BATCH_ELASTIC, BATCH_RIGID)
    }
    claims = dict(zip(ratios, ("0.63", "0.78"), strict=True))
    ratios["memory allocation, flexible / rigid"] = (flexible, rigid, "memory allocation")
    claims["memory allocation, flexible / rigid"] = "1.2"
    return ExperimentDesign("zoe-cluster", (rigid, flexible), ratios, claims, draw=draw_templates)


def draw_templates(workload: ZoeWorkload, random: np.random.Generator) -> list[Submission]:
    """Return applications of the four templates, in order of time."""
    found: list[Submission] = []
    at = 0.0
    for index in range(workload.applications):
        # Cut at a second: a Gaussian gap would be negative once in fifteen times.
        at += max(1.0, float(random.normal(60.0, 40.0)))
        run = float(MEDIAN_RUN_S * np.exp(RUN_SPREAD * random.standard_normal()))
        is_rigid = random.random() < workload.rigid
        core, elastic, profile = _template(is_rigid, random)
        claim = Claim(f"z{index}", core, elastic, at, run)
        label = BATCH_RIGID if is_rigid else BATCH_ELASTIC
        found.append(Submission(claim, at, run, label, profile))
    return found


def _template(
    is_rigid: bool, random: np.random.Generator
) -> tuple[tuple[ClaimPart, ...], tuple[ClaimPart, ...], str]:
    if is_rigid:
        worker = (4_000, 16 * _GIB)
        count = 1 if random.random() < 0.5 else 15
        return (ClaimPart(count, worker),), (), f"tensorflow-{count}"
    memory = (16 if random.random() < 0.5 else 8) * _GIB
    if random.random() < 0.5:
        each, count, name = (1_000, memory), 32, "random-forest"
    else:
        each, count, name = (6_000, memory), 24, "recommender"
    return (ClaimPart(3, each),), (ClaimPart(count, each),), name

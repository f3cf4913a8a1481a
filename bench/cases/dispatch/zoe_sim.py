"""`zoe_sim`: Zoe's workload on 100 machines, flexible and FIFO, with preemption of elastic parts.

80,000 applications of every kind, arrivals to the last end; records are kept in memory.
"""

from __future__ import annotations

import resource
import time

NAME = "zoe_sim"


def run(small: bool) -> dict[str, object]:
    """Draw the workload and simulate it, plain and preemptive."""
    import numpy as np

    from bench.papers.cluster.generator import ZoeWorkload, zoe_workload
    from bench.papers.zoe_runs import Variant, ZoeOptions, run_variant

    workload = ZoeWorkload(applications=1_000 if small else 80_000)
    options = ZoeOptions(workload)
    run_variant(
        zoe_workload(ZoeWorkload(applications=20), np.random.default_rng(0)),
        Variant("flexible", "fifo"),
        options,
    )  # compiles where no cache holds the kernels yet
    began = time.perf_counter()
    submissions = zoe_workload(workload, np.random.default_rng(1))
    figures: dict[str, object] = {"draw_s": round(time.perf_counter() - began, 2)}
    for variant in (
        Variant("flexible", "fifo"),
        Variant("flexible", "srpt", preemptive=True, by_priority=True),
    ):
        began, spent = time.perf_counter(), time.process_time()
        metrics = run_variant(submissions, variant, options)
        name = f"{variant.ordering}{'-preemptive' if variant.preemptive else ''}"
        figures[f"{name}_s"] = round(time.perf_counter() - began, 2)
        figures[f"{name}_cpu_s"] = round(time.process_time() - spent, 2)
        figures[f"{name}_completed"] = metrics.groups["all"].completed
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures["peak_mib"] = peak // 1024
    return {
        "params": {"applications": workload.applications, "machines": workload.machines},
        "figures": figures,
    }

"""`offers`: three offers for a refused request alongside an admission, in one run.

An admission is what a client waits for: RDL to WorkGraph, the agent, the re-check and the commit.
"""

from __future__ import annotations

import statistics
import time

from bench.workloads.generator import Mix, cluster_of, expression_of, generate

NAME = "offers"


def run(small: bool) -> dict[str, object]:
    """Load a Plan until requests are refused, then time refusals with offers and admissions."""
    mix = Mix(requests=300 if small else 2000, machines=400, kind="mixed", load=1.6)
    admissions, searches, found = _timed(mix)
    admission, search = statistics.median(admissions), statistics.median(searches)
    return {
        "params": {"requests": mix.requests, "machines": mix.machines, "load": mix.load},
        "figures": {
            "admission_us": admission * 1e6,
            "offers_us": search * 1e6,
            "ratio": search / admission,
            "refused": len(searches),
            "with_offers": sum(count > 0 for count in found),
            "mean_offers": statistics.fmean(found),
        },
    }


def _timed(mix: Mix) -> tuple[list[float], list[float], list[int]]:
    """Return seconds an admission, seconds a search, and the offers each search found."""
    from planner.agent import Limits
    from planner.agents import agent_named
    from planner.offers import Seeker, find_offers
    from planner.plan.plan import Plan
    from planner.plan.records.changes import Admit
    from planner.request import Request
    from rdl.compile.compiler import compile_expression

    cluster = cluster_of(mix)
    plan = Plan(cluster, cluster.grid())
    agent = agent_named("gree-l")
    context = cluster.context(cluster.grid(), 0)
    admissions, searches, found = [], [], []
    for index, asked in enumerate(generate(mix)):
        expression = expression_of(asked, mix.step_ms)
        began = time.perf_counter()
        graph = compile_expression(expression, context)
        request = Request(f"r{index}", "t", "default", 0, 1.0, 0, graph)
        result = agent.plan([request], plan.view(), Limits())[0]
        if result.placed:
            change = Admit(request, result, agent.name)
            prepared = plan.prepare([change], plan.version, atomic=False, at_ms=0)
            assert prepared.record is not None
            plan.apply(prepared.record)
            admissions.append(time.perf_counter() - began)
            continue
        began = time.perf_counter()
        offers = find_offers(Seeker(request, expression, context, plan.view(), agent), 3)
        searches.append(time.perf_counter() - began)
        found.append(len(offers))
    return admissions, searches, found

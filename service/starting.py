"""What a process does between its Plan and its first client."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from planner.files import cluster_to_json
from planner.request import Request
from rdl.compiler import compile_expression
from rdl.expressions import Atom
from rdl.resources import CPU, Resources
from service.commands import Admission, Ask, Job, Reconfiguration, Rendered
from service.drafts import context_of
from service.problems import ProblemDocument

logger = logging.getLogger("agenda.service")

if TYPE_CHECKING:
    from service.committer import Committer
    from service.replica import Replica
    from service.runtime import Runtime


def warm_up(runtime: Runtime) -> None:
    """Plan one step of one thing, so that no client waits for kernels to be compiled."""
    with runtime.reading() as plan:
        resource = next(iter(plan.cluster.resources), CPU)
        step_ms, submitted_ms = plan.grid.step_ms, runtime.now_ms()
        context = context_of(plan, submitted_ms)
    atom = Atom(Resources.of({resource: 1}), 1, 1, step_ms, step_ms)
    graph = compile_expression(atom, context)
    request = Request(runtime.new_id(), "", "default", submitted_ms, 1.0, 0, graph)
    runtime.rehearse(Admission((Ask(atom, None, request, runtime.config.agent, ""),)))


def adopt_offered_cluster(replica: Replica, committer: Committer) -> None:
    """Change to the cluster of the file given at this start, unless it was offered before."""
    offered = replica.offered
    if offered is None or not replica.is_new_offer():
        return
    with replica.newest() as plan:
        same = cluster_to_json(plan.cluster) == cluster_to_json(offered)
    if not same:
        job = Job(Reconfiguration(offered, None), lambda _: Rendered(200, b""), time.perf_counter())
        committer.run([job])
        if isinstance(job.answers[0], ProblemDocument):
            why = job.answers[0].detail
            logger.error("the cluster file is not taken up, the Plan stays on its cluster: %s", why)
            return
    replica.note_offer()

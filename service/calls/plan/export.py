"""The whole live Plan as a plan file, which offline commands take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.files import PlanDocument
from planner.workload.plan import document_of
from planner.workload.reload import metrics_of
from service.optimizing.live_requests import whole_cluster

if TYPE_CHECKING:
    from service.runtime import Runtime

#: The order of the file: that of admission.
_ORDER: Final = "submitted"


def exported_plan(runtime: Runtime) -> PlanDocument:
    """Return the Plan in the form of plan files, its metrics measured anew.

    Its cluster has a horizon that reaches as far as the Plan does by now, so that everything in it
    lies within.
    """
    with runtime.reading() as plan:
        twin = plan.copy()
    twin.cluster = whole_cluster(twin)
    agents = ", ".join(sorted({one.agent for one in twin.reservations()})) or "none"
    return document_of(twin, agents, _ORDER, replace(metrics_of(twin), runtime_ms=0.0))

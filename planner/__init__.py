"""The Plan and its agents: agents place requests, the Plan keeps every promise.

The names below are for users of the package; docs/python.md has examples. Everything else is
internal. A name is imported from its module at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rdl.lazy_names import lazy_names

if TYPE_CHECKING:
    from planner.agent import Agent, Limits
    from planner.agents import AGENT_NAMES, DEFAULT_AGENT, agent_named
    from planner.cluster.cluster import Cluster
    from planner.files.cluster_file import cluster_from_json, read_cluster
    from planner.files.errors import FileError, FileProblem
    from planner.files.plan_document import PlanDocument, read_plan, write_plan
    from planner.files.workload_file import WorkloadLine, read_line, read_workload
    from planner.metrics import Metrics
    from planner.optimization.objective import Objective, Weights
    from planner.optimization.optimizer import optimize
    from planner.optimization.result import Optimized, OptimizeOptions, OptimizeScope
    from planner.plan.plan import Plan
    from planner.promise import PromiseLevel
    from planner.request import Request
    from planner.reservations.reservation import AtomAllocation, Refusal, Reservation
    from planner.validation.document import PlanViolation
    from planner.validation.validate import validate
    from planner.workload.compare import AgentRun, Comparison, compare
    from planner.workload.compile import CompiledWorkload, compile_workload
    from planner.workload.diff import PlanDiff, plan_diff
    from planner.workload.plan import Planned, plan_from_nothing, plan_workload
    from planner.workload.reload import plan_of_document

__all__ = [
    "AGENT_NAMES",
    "DEFAULT_AGENT",
    "Agent",
    "AgentRun",
    "AtomAllocation",
    "Cluster",
    "Comparison",
    "CompiledWorkload",
    "FileError",
    "FileProblem",
    "Limits",
    "Metrics",
    "Objective",
    "OptimizeOptions",
    "OptimizeScope",
    "Optimized",
    "Plan",
    "PlanDiff",
    "PlanDocument",
    "PlanViolation",
    "Planned",
    "PromiseLevel",
    "Refusal",
    "Request",
    "Reservation",
    "Weights",
    "WorkloadLine",
    "agent_named",
    "cluster_from_json",
    "compare",
    "compile_workload",
    "optimize",
    "plan_diff",
    "plan_from_nothing",
    "plan_of_document",
    "plan_workload",
    "read_cluster",
    "read_line",
    "read_plan",
    "read_workload",
    "validate",
    "write_plan",
]

#: The module that defines each name.
_HOMES: Final = {
    "AGENT_NAMES": "planner.agents",
    "Agent": "planner.agent",
    "AgentRun": "planner.workload.compare",
    "AtomAllocation": "planner.reservations.reservation",
    "Cluster": "planner.cluster.cluster",
    "Comparison": "planner.workload.compare",
    "CompiledWorkload": "planner.workload.compile",
    "DEFAULT_AGENT": "planner.agents",
    "FileError": "planner.files.errors",
    "FileProblem": "planner.files.errors",
    "Limits": "planner.agent",
    "Metrics": "planner.metrics",
    "Objective": "planner.optimization.objective",
    "OptimizeOptions": "planner.optimization.result",
    "OptimizeScope": "planner.optimization.result",
    "Optimized": "planner.optimization.result",
    "Plan": "planner.plan.plan",
    "PlanDiff": "planner.workload.diff",
    "PlanDocument": "planner.files.plan_document",
    "PlanViolation": "planner.validation.document",
    "Planned": "planner.workload.plan",
    "PromiseLevel": "planner.promise",
    "Refusal": "planner.reservations.reservation",
    "Request": "planner.request",
    "Reservation": "planner.reservations.reservation",
    "Weights": "planner.optimization.objective",
    "WorkloadLine": "planner.files.workload_file",
    "agent_named": "planner.agents",
    "cluster_from_json": "planner.files.cluster_file",
    "compare": "planner.workload.compare",
    "compile_workload": "planner.workload.compile",
    "optimize": "planner.optimization.optimizer",
    "plan_diff": "planner.workload.diff",
    "plan_from_nothing": "planner.workload.plan",
    "plan_of_document": "planner.workload.reload",
    "plan_workload": "planner.workload.plan",
    "read_cluster": "planner.files.cluster_file",
    "read_line": "planner.files.workload_file",
    "read_plan": "planner.files.plan_document",
    "read_workload": "planner.files.workload_file",
    "validate": "planner.validation.validate",
    "write_plan": "planner.files.plan_document",
}


if not TYPE_CHECKING:  # type checkers use the imports above, and find misspelt names
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """Return all names, those not imported yet included."""
    return sorted({*globals(), *__all__})

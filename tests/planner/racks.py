"""Clusters of a few racks, and what a Plan on them holds."""

from __future__ import annotations

import json
from dataclasses import replace

from planner.adaptation.adapter import adapt
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.files import PlanDocument
from planner.metrics import measure
from planner.offer_search import quick
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Conflict, Reconfigure, Refuse
from planner.promise import PromiseLevel
from planner.request import Request
from planner.validation.validate import validate
from planner.workload.plan import document_of
from rdl.resources import Resources
from tests.builders import commit

STEPS = 12


def racks(*cores: list[int], steps: int = STEPS) -> Cluster:
    """Return racks of machines with these cores, each in a zone of two racks."""
    groups = [
        MachineGroup(
            f"r{rack}m{number}",
            1,
            Resources.of({"cpu": 1000 * one}),
            frozenset({"two"} if one == 2 else ()),
            domains=(("rack", f"r{rack}"), ("zone", f"z{rack // 2}")),
        )
        for rack, machines in enumerate(cores)
        for number, one in enumerate(machines)
    ]
    return Cluster(1000, 1000 * steps, tuple(groups), promise=PromiseLevel.PLACED)


def ask(plan: Plan, request: Request, agent: str = "gree") -> str | None:
    """Place a request and commit the answer as the service does; return why it is refused."""
    chosen = agent_named(agent)
    result = chosen.plan([request], plan.view(), Limits(work=20, seed=1))[0]
    if result.code is not None:
        commit(plan, Refuse(request, result.code, result.detail, result.binding))
        return result.detail
    outcome = commit(plan, Admit(request, result, agent, planner=quick(chosen))).outcomes[0]
    return outcome.detail if isinstance(outcome, Conflict) else None


def violations(plan: Plan) -> list[str]:
    """Return what the validator says of a Plan as it is read back from its file."""
    document = document_of(plan, "x", "submitted", measure([], plan.cluster.nominal, STEPS))
    body = PlanDocument.from_json(json.loads(document.to_text())).to_json()
    del body["metrics"]
    return [f"{one.where}: {one.detail}" for one in validate(body, grid=plan.grid)]


def racks_of(plan: Plan, id_: str = "job") -> list[list[str]]:
    """Return the racks that each occurrence of each atom has slots in from now on."""
    found = plan.reservation(id_)
    assert found is not None
    groups = [group for group in plan.cluster.machines for _ in range(group.count)]
    found_racks = []
    for atom in found.atoms:
        for slots in atom.occurrence_slots():
            assert slots is not None
            later = slots[slots[:, 1] > plan.now, 3].tolist()
            found_racks.append(sorted({dict(groups[one].domains)["rack"] for one in later}))
    return found_racks


def adapt_now(plan: Plan) -> None:
    """Commit what the adapter finds."""
    found = adapt(plan, Limits(work=20, seed=1))
    if not found.changes:
        return
    prepared = plan.prepare(found.changes, found.based_on, joint=True)
    assert prepared.record is not None, prepared.outcomes
    plan.apply(prepared.record)


def lose(plan: Plan, *machines: str) -> None:
    """Lose groups of one machine from now on."""
    now = plan.now * 1000
    lost = tuple(Outage(name, (0,), now, STEPS * 1000) for name in machines)
    commit(plan, Reconfigure(replace(plan.cluster, outages=lost)))

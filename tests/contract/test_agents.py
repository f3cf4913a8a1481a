"""The contract of every agent: the same scenarios, the same answers, judged from outside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse
from planner.request import Request
from planner.validation.validate import validate
from rdl.compile.compiler import compile_expression
from rdl.errors import RdlError
from rdl.oracle.satisfaction import check
from rdl.text.parser import parse
from tests.contract.scenarios import INCOMPLETE, SCENARIOS_BY_KIND
from tests.contract.scenarios.language import Ask, Rows, Scenario

STANDING = "standing"


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one ask: a code, or rows (in steps) and choices by path."""

    code: str | None
    rows: dict[str, Rows]
    choices: dict[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    """A scenario after an agent has answered it."""

    answers: list[Answer]
    document: dict[str, Any]
    requests: list[Request]
    results: list[PlacementResult]


def request_of(ask: Ask, name: str, cluster: Cluster) -> Request:
    """Compile an ask on the cluster's grid; raises RdlError."""
    submitted_ms = round(ask.submitted * 1000)
    context = cluster.context(cluster.grid(), submitted_ms)
    graph = compile_expression(parse(ask.rdl), context, ask.rdl)
    return Request(name, ask.tenant, "default", submitted_ms, ask.weight, ask.priority, graph)


def stand(plan: Plan, start: int, end: int, bundles: int, number: int) -> None:
    """Commit one rigid reservation by hand; no agent has a say in where it lies."""
    step = plan.grid.step_ms / 1000
    length = end - start
    rdl = (
        f"window(atom(<1 cpu>, {bundles}, {bundles}, {length * step:g}, "
        f"{length * bundles * step:g}), {start * step:g}, {end * step:g})"
    )
    request = request_of(Ask(rdl, tenant=STANDING), f"{STANDING}-{number}", plan.cluster)
    vertices = request.graph.atoms
    result = PlacementResult(
        vertices=vertices,
        first=np.array([0, 1]),
        rows=np.array([[start, end, bundles]], dtype=np.int64),
    )
    commit(plan, [Admit(request, result, "by-hand")])


def commit(plan: Plan, changes: list[Admit | Refuse]) -> None:
    """Apply changes, all of which must hold."""
    if changes:
        prepared = plan.prepare(changes, plan.version, atomic=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)


def run(scenario: Scenario, agent_name: str) -> Run:
    """Compile, plan, commit and write a scenario."""
    cluster = scenario.cluster
    plan = Plan(cluster, cluster.grid())
    for number, load in enumerate(scenario.standing):
        stand(plan, *load, number)
    requests: list[Request] = []
    answers: dict[str, Answer] = {}
    changes: list[Admit | Refuse] = []
    for i, ask in enumerate(scenario.asks):
        try:
            requests.append(request_of(ask, f"r{i}", cluster))
        except RdlError as error:
            answers[f"r{i}"] = Answer(error.code, {}, {})
    agent = agent_named(agent_name)
    results = agent.plan(requests, plan.snapshot(), Limits(time_s=20.0, seed=1))
    assert len(results) == len(requests)
    for request, result in zip(requests, results, strict=True):
        if result.placed:
            changes.append(Admit(request, result, agent_name))
        else:
            changes.append(Refuse(request, result.code, result.detail, result.binding))
            answers[request.id] = Answer(result.code, {}, {})
    commit(plan, changes)
    for reservation in plan.reservations():
        held = {
            path: [(s, e, n) for s, e, n in rows.tolist()]
            for atom in reservation.atoms
            for path, rows in atom.occurrences()
        }
        answers[reservation.id] = Answer(None, held, dict(reservation.choices))
    in_order = [answers[f"r{i}"] for i in range(len(scenario.asks))]
    return Run(in_order, document_of(plan, agent_name), requests, results)


SCENARIOS = [one for scenarios in SCENARIOS_BY_KIND.values() for one in scenarios]
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@cache
def first_run(name: str, agent: str) -> Run:
    """Return the run of a scenario that all tests of this process judge; they change nothing."""
    return run(BY_NAME[name], agent)


def document_of(plan: Plan, agent: str) -> dict[str, Any]:
    """Return the plan as its file would read, through JSON text and back."""
    document = {
        "cluster": {},
        "version": plan.version,
        "step_s": plan.grid.seconds(1),
        "agent": agent,
        "order": "submitted",
        "reservations": [entry.to_json(plan.grid) for entry in plan.reservations()],
        "refusals": [entry.to_json(plan.grid) for entry in plan.refusals],
        "metrics": None,
    }
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def fault_of(scenario: Scenario, agent: str) -> str | None:
    """Return what is wrong with an agent's answers, or None if all are as derived by hand."""
    done = first_run(scenario.name, agent)
    grid = scenario.cluster.grid()
    for ask, answer in zip(scenario.asks, done.answers, strict=True):
        if answer.code is not None and agent in INCOMPLETE:
            continue
        if answer.code != ask.code:
            return f"{ask.rdl}: {answer.code}, not {ask.code}"
        if answer.code is not None:
            continue
        submitted_ms = round(ask.submitted * 1000)
        broken = check(parse(ask.rdl), grid, submitted_ms, answer.rows, answer.choices)
        if broken is not None:
            return f"{ask.rdl}: {broken}"
        if ask.rows is not None and answer.rows != dict(ask.rows):
            return f"{ask.rdl}: {answer.rows}, not {ask.rows}"
        wanted = dict(ask.choices or {})
        if {path: answer.choices.get(path) for path in wanted} != wanted:
            return f"{ask.rdl}: chose {answer.choices}, not {wanted}"
    found = validate(done.document, cluster=scenario.cluster)
    if found:
        return str(found[0])
    return None


@pytest.mark.parametrize("kind", SCENARIOS_BY_KIND)
@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_answers(kind: str, agent: str) -> None:
    """Every answer is as derived by hand; oracle and validator accept the plan.

    The first of its kind, planned again, gives the same plan.
    """
    scenarios = SCENARIOS_BY_KIND[kind]
    faults = {one.name: fault_of(one, agent) for one in scenarios}
    assert {name: fault for name, fault in faults.items() if fault is not None} == {}
    assert run(scenarios[0], agent).document == run(scenarios[0], agent).document


@pytest.mark.parametrize("agent", sorted(set(AGENT_NAMES) - INCOMPLETE))
def test_refusals_say_what_stood_in_the_way(agent: str) -> None:
    """A refusal names an atom of the request, and where numbers stand, they collide."""
    assert len(BY_NAME) == len(SCENARIOS)
    for scenario in SCENARIOS:
        done = first_run(scenario.name, agent)
        for result in done.results:
            if result.placed:
                continue
            assert result.detail, scenario.name
            assert result.binding is not None, scenario.name
            paths = {path for request in done.requests for path in request.graph.paths}
            assert result.binding.path in paths, scenario.name
            needed, free = result.binding.needed, result.binding.free
            if needed is not None and free is not None:
                assert needed > free, (scenario.name, result.binding)

"""Rayon's MILP: proven optimal on tiny instances of every operator, checked by the oracle."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.milp import rayon
from planner.agents.milp.agent import MILP
from planner.agents.milp.codec import decode, encode
from planner.plan.changes import Admit
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from rdl.compile.shapes import least_reachable
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.work_graph import choices_of, occurrence_path
from tests.builders import a_cluster, a_request
from tests.planner.brute_force_plan import best_value

HORIZON = 6
GRID = a_cluster().step("0.001s").horizon("0.006s").machines("plain", 4, cpu=1, memory="1 GiB")
CLUSTER = GRID.build()
CAPACITY = Resources.from_json({"cpu": 4, "memory": "4 GiB"})


def atom(rng: np.random.Generator) -> str:
    """Draw a small atom: g, h, lease, work in bundle-ms, sometimes in multiples."""
    multiple = int(rng.integers(1, 3))
    g = multiple * int(rng.integers(1, 3))
    h = g + multiple * int(rng.integers(0, 2))
    lease = int(rng.integers(1, 4))
    work = least_reachable(g, h, multiple, lease, multiple * int(rng.integers(1, 6)))
    bundle = rng.choice(["<1 cpu>", "<1 cpu, 1 GiB memory>", "<500m cpu, 1 GiB memory>"])
    tail = f", multiple={multiple}" if multiple > 1 else ""
    return f"atom({bundle}, {g}, {h}, 0.00{lease}, 0.0{work:02d}{tail})"


def expression(rng: np.random.Generator, depth: int) -> str:
    """Draw a small tree over all operators."""
    if depth == 0:
        return atom(rng)
    parts = [expression(rng, depth - 1) for _ in range(2)]
    match int(rng.integers(0, 8)):
        case 0:
            return f"all({parts[0]}, {parts[1]})"
        case 1:
            return f"any({parts[0]}, {parts[1]}, prefer=[1, 0.5])"
        case 2:
            return f"order({parts[0]}, {parts[1]})"
        case 3:
            return f"order({parts[0]}, {parts[1]}, gap=0..0)"
        case 4:
            return f"order({parts[0]}, {parts[1]}, gap=0.001..0.002)"
        case 5:
            return f"graph(a: {parts[0]}, b: {parts[1]}; a -> b)"
        case 6:
            return f"every(0.003, {atom(rng)}, times=2)"
        case _:
            return f"window({parts[0]}, 0.001, 0.005)"


def requests_of(seed: int) -> list[Request]:
    """Draw up to three requests that compile."""
    rng = np.random.default_rng(seed)
    found: list[Request] = []
    while len(found) < 3:
        text = expression(rng, int(rng.integers(0, 3)))
        drawn = a_request(f"r{len(found)}", text).weight(float(rng.integers(1, 4)))
        with suppress(ValueError):  # what no plan can satisfy is drawn again
            found.append(drawn.on(CLUSTER))
    return found


def assert_satisfied(request: Request, result: object) -> None:
    """Hold a result against the oracle."""
    graph = request.graph
    allocation = {}
    for vertex, rows in result.atoms():  # type: ignore[attr-defined]
        first = int(graph.vertices[vertex, 12])
        for k in range(int(graph.vertices[vertex, 13])):
            shift = int(graph.shifts[first + k])
            allocation[occurrence_path(graph, vertex, k)] = [
                (s + shift, e + shift, b) for s, e, b in rows.tolist()
            ]
    choices = choices_of(graph, result.vertices.tolist())  # type: ignore[attr-defined]
    assert check(graph.expression, graph.grid, 0, allocation, choices) is None


@pytest.mark.parametrize("seed", range(150))
def test_the_model_finds_and_proves_the_best_plan(seed: int) -> None:
    """On random tiny sets over all operators the value equals that of full enumeration."""
    requests = requests_of(seed)

    results, report = MILP.solve(requests, Plan(CLUSTER, CLUSTER.grid()).snapshot(), Limits())

    assert report.status == "optimal"
    assert report.value == pytest.approx(best_value(requests, CAPACITY, HORIZON))
    assert report.bound == pytest.approx(report.value, rel=1e-5)
    for request, result in zip(requests, results, strict=True):
        if result.placed:
            assert_satisfied(request, result)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200, 1000))
def test_the_model_is_exact_at_length(seed: int) -> None:
    """The same over hundreds of sets more, each by itself and under a window average."""
    test_the_model_finds_and_proves_the_best_plan(seed)
    test_window_averages_are_exact(seed)


@pytest.mark.parametrize("seed", range(100))
def test_window_averages_are_exact(seed: int) -> None:
    """Under an average over every window the value is still that of full enumeration.

    Rows that were too tight would lose value; too loose, the Plan would refuse the commit.
    """
    share, window = [(0.5, 3), (0.3, 4), (0.6, 2), (0.25, 8)][seed % 4]
    ruled = GRID.policy("capacity_over_time", average=share, window=f"0.00{window}s").build()
    requests = requests_of(seed)
    plan = Plan(ruled, ruled.grid())

    results, report = MILP.solve(requests, plan.snapshot(), Limits())

    best = best_value(requests, CAPACITY, HORIZON, (share, window))
    assert report.value == pytest.approx(best)
    assert report.status == "optimal"
    changes = [Admit(r, a, "milp") for r, a in zip(requests, results, strict=True) if a.placed]
    assert not plan.prepare(changes, plan.version).conflicts


@pytest.mark.parametrize("seed", range(20))
def test_encoding_is_feasible_and_decodes_to_itself(seed: int) -> None:
    """A greedy plan becomes values that break no row of the model, and comes back unchanged."""
    requests = requests_of(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    results = agent_named("gree").plan(requests, view, Limits())
    built = rayon.build(requests, view)

    values = encode(results, built)

    assert built.model.assemble().violation(values) <= 1e-9
    for before, after in zip(results, decode(values, built), strict=True):
        assert before.placed == after.placed
        assert np.array_equal(before.rows, after.rows)
        assert dict(before.choices) == dict(after.choices)


def test_the_second_solve_keeps_value_and_lowers_preemption() -> None:
    """Work of 4 in a window of 4 on an idle cluster: one bundle throughout falls once, by one."""
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 0.001, 0.004), 0, 0.004)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()

    results = MILP.plan([request], view, Limits())

    assert score_of([request], results, view.nominal)[1] == -1


@pytest.mark.parametrize("seed", range(4))
def test_it_starts_from_the_best_greedy_plan(seed: int) -> None:
    """However little it may work, it is worth at least what greedy agents reach in any order."""
    requests = requests_of(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    greedy = agent_named("portfolio-free").plan(requests, view, Limits())

    results = MILP.plan(requests, view, Limits(work=1))

    best = score_of(requests, greedy, view.nominal)
    assert score_of(requests, results, view.nominal)[0] >= best[0] * (1 - 1e-9)


def test_it_says_what_beside_value_is_not_proven() -> None:
    """All is placed at once, so value is proven; without time preemption is not, and it says so."""
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 0.001, 0.006), 0, 0.004)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()

    report = MILP.solve([request], view, Limits(time_s=0.0))[1]
    proven = MILP.solve([request], view, Limits())[1]

    assert (report.status, "preemption not proven" in report.detail) == ("optimal", True)
    assert (proven.status, proven.detail) == ("optimal", "")


def test_a_limit_of_no_time_returns_the_greedy_plan() -> None:
    """Stopped at once, the agent still answers, with what greedy found."""
    requests = requests_of(3)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    greedy = [agent_named(name).plan(requests, view, Limits()) for name in ("gree", "gree-l")]

    results = MILP.plan(requests, view, Limits(time_s=0.0))

    best = max(score_of(requests, plan, view.nominal) for plan in greedy)
    assert score_of(requests, results, view.nominal) >= best

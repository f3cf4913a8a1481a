"""Agents that solve: whatever the input is and however a run ends, a valid plan and a true word."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.workloads.generator import Mix, cluster_of, requests_of
from lp.limits import ModelError, SolveLimits
from lp.solver import solve
from planner.agent import Limits, SolveProgress, SolverOutcome
from planner.agents import AGENT_NAMES, agent_named
from planner.agents.milp import agent as milp_solves
from planner.agents.milp import rayon
from planner.agents.milp.agent import MILP
from planner.agents.milp.columns import lay_out
from planner.agents.milp.objectives import Kept
from planner.agents.milp.size import predicted_size
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.request import Request
from planner.validation.validate import validate
from planner.value import score_of
from planner.view import PlanView
from planner.workload.compile import CompiledWorkload
from planner.workload.plan import plan_from_nothing
from tests.builders import RequestBuilder, a_cluster, a_request, a_workload
from tests.patience import stopwatch

#: Agents that prove something.
SOLVERS = sorted(name for name in AGENT_NAMES if hasattr(agent_named(name), "solve"))

WORDS = {outcome.value for outcome in SolverOutcome}
TEN = a_cluster().horizon(20).machines("m", 10, cpu=1)


def unit(name: str, tail: str = "0, 20") -> RequestBuilder:
    """Ten bundle-seconds on at most five cores."""
    return a_request(name, f"window(atom(<1 cpu>, 1, 5, 1, 10), {tail})")


DEGENERATE: dict[str, tuple[Cluster, list[RequestBuilder], int]] = {
    "no request": (TEN.build(), [], 0),
    "weights of zero": (TEN.build(), [unit("a").weight(0), unit("b").weight(0)], 2),
    "one worth nothing alongside one": (TEN.build(), [unit("a").weight(0), unit("b")], 2),
    "one step": (
        a_cluster().horizon(1).machines("m", 10, cpu=1).build(),
        [
            a_request("a", "atom(<1 cpu>, 1, 10, 1, 10)"),
            a_request("b", "atom(<1 cpu>, 1, 1, 1, 1)"),
        ],
        1,
    ),
    "no capacity": (TEN.outage("m", 10, 0, 20).build(), [unit("a"), unit("b")], 0),
    "no capacity until the end": (TEN.outage("m", 10, 0, 18).build(), [unit("a")], 1),
    "none that fits": (
        TEN.outage("m", 5, 0, 20).build(),
        [a_request(f"r{n}", "atom(<1 cpu>, 6, 6, 2, 12)") for n in range(3)],
        0,
    ),
    "unsatisfiable": (TEN.build(), [a_request("a", "window(atom(<1 cpu>, 1, 1, 9, 9), 0, 5)")], 0),
    "void": (TEN.build(), [a_request("a", "void(<1 cpu>, 3)"), unit("b")], 2),
}


def planned(agent: str, cluster: Cluster, work: CompiledWorkload, limits: Limits | None = None):  # type: ignore[no-untyped-def]
    """Plan, hold the file against the validator, and return it with its metrics."""
    done = plan_from_nothing(cluster, work, agent_named(agent), limits or Limits(time_s=5.0))
    assert validate(done.document.to_json()) == []
    return done


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("agent", SOLVERS)
def test_degenerate_input_is_planned_and_proven(agent: str, case: str) -> None:
    """Nothing to ask, nothing to gain, nowhere to run: all that fits is placed, gap 0."""
    cluster, asked, placed = DEGENERATE[case]
    metrics = planned(agent, cluster, a_workload(cluster, *asked)).metrics
    assert metrics.accepted == placed
    if metrics.bound is not None:
        assert metrics.status == "optimal"
        assert metrics.gap == pytest.approx(0.0, abs=1e-6)


def crowded(kind: str = "mixed", requests: int = 40) -> tuple[Cluster, list[object]]:
    """Return a set that no solver finishes at once."""
    mix = Mix(requests=requests, steps=120, machines=20, kind=kind, seed=3, load=2.0)
    return cluster_of(mix), list(requests_of(mix))


def greedy_value(requests, view) -> float:  # type: ignore[no-untyped-def]
    """Return what the better of GREE and GREE-L accepts."""
    plans = [agent_named(name).plan(requests, view, Limits()) for name in ("gree", "gree-l")]
    return max(score_of(requests, plan, view.reference)[0] for plan in plans)


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("agent", SOLVERS)
def test_stopped_at_any_instant_the_best_so_far_stands(agent: str, after_s: float) -> None:
    """However early ^C comes: a plan worth at least the greedy one, soon, and a true word."""
    cluster, requests = crowded()
    view = Plan(cluster, cluster.grid()).snapshot()
    began = time.monotonic()
    limits = Limits(time_s=20.0, stop=lambda: time.monotonic() - began >= after_s)
    with stopwatch() as taken:
        results, report = agent_named(agent).solve(requests, view, limits)  # type: ignore[attr-defined]
    assert taken.seconds < after_s + 10.0
    assert report.status == ("optimal" if report.gap <= 1e-5 else "stopped")
    assert report.detail or report.status == "optimal"
    value = score_of(requests, results, view.reference)[0]  # type: ignore[arg-type]
    assert value == pytest.approx(report.value)
    assert value >= greedy_value(requests, view) - 1e-9
    assert report.bound >= value


@pytest.mark.parametrize("time_s", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("agent", SOLVERS)
def test_a_limit_is_kept_and_told(agent: str, time_s: float) -> None:
    """The limit ends the run within seconds; without a proof the status claims none."""
    cluster, requests = crowded()
    view = Plan(cluster, cluster.grid()).snapshot()
    with stopwatch() as taken:
        results, report = agent_named(agent).solve(requests, view, Limits(time_s=time_s))  # type: ignore[attr-defined]
    assert taken.seconds < time_s + 10.0
    assert len(results) == len(requests)
    assert report.value >= greedy_value(requests, view) - 1e-9
    assert (report.status == "optimal") == (report.gap <= 1e-5)


def kill_children(done: list[int]) -> Callable[[], bool]:
    """Return a `stop` that kills the first new child process, as an OOM killer would."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    before = listed.read_text().split()

    def stop() -> bool:
        children = [one for one in listed.read_text().split() if one not in before]
        for child in children if not done else ():
            os.kill(int(child), signal.SIGKILL)
            done.append(int(child))
        return False

    return stop


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_solver_that_crashes_costs_the_proof_not_the_plan() -> None:
    """Its process is killed from outside: the greedy plan stands and the status says `failed`."""
    cluster, requests = crowded("workflows")
    view = Plan(cluster, cluster.grid()).snapshot()
    killed: list[int] = []
    agent = replace(MILP, watched_from=0)
    limits = Limits(time_s=2.0, stop=kill_children(killed))
    results, report = agent.solve(requests, view, limits)  # type: ignore[arg-type]
    assert killed
    assert report.status == "failed"
    assert "process died" in report.detail
    assert score_of(requests, results, view.reference)[0] >= greedy_value(requests, view)  # type: ignore[arg-type]


def test_a_model_too_large_is_refused_with_its_size() -> None:
    """Nothing is built: the greedy plan stands, and the status says how much it would take."""
    cluster, requests = crowded("workflows")
    view = Plan(cluster, cluster.grid()).snapshot()
    results, report = replace(MILP, most_memory=1 << 20).solve(requests, view, Limits())  # type: ignore[arg-type]
    assert report.status == "too_large"
    assert "GiB" in report.detail
    assert "variables" in report.detail
    assert score_of(requests, results, view.reference)[0] >= greedy_value(requests, view)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_the_size_is_known_before_building(kind: str) -> None:
    """Variables, rows and coefficients are predicted within a twentieth."""
    cluster, requests = crowded(kind)
    view = Plan(cluster, cluster.grid()).snapshot()
    size = predicted_size(lay_out(requests, view), view)  # type: ignore[arg-type]
    model = rayon.build(requests, view, kept=Kept(0.0)).model.assemble()  # type: ignore[arg-type]
    assert size.columns == pytest.approx(model.columns, rel=0.05)
    assert size.rows == pytest.approx(model.rows, rel=0.05)
    assert size.entries == pytest.approx(model.values.size, rel=0.05)


def test_a_proof_below_a_plan_in_hand_is_no_proof() -> None:
    """A solver that claims less than what a plan is worth is reported as failed, with no bound."""
    cluster, requests = crowded("malleable", 4)
    view = Plan(cluster, cluster.grid()).snapshot()
    liar = replace(MILP, start=())

    from lp import result

    real = solve

    def lying(*args: object, **options: object) -> result.Solution:
        answer = real(*args, **options)  # type: ignore[arg-type]
        return replace(answer, status=result.SolveStatus.OPTIMAL, bound=answer.bound * 0.5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milp_solves, "solve", lying)
        report = liar.solve(requests, view, Limits(time_s=5.0))[1]  # type: ignore[arg-type]
    assert report.status == "failed"
    assert report.bound == pytest.approx(sum_asked(requests, view))


def too_many() -> tuple[list[Request], PlanView]:
    """Return a small set of which not all can be placed, so that a solver is asked."""
    cluster = a_cluster().horizon(12).machines("m", 4, cpu=1).build()
    texts = ["window(atom(<1 cpu>, 1, 4, 1, 10), 0, 6)", "window(atom(<1 cpu>, 3, 4, 2, 20), 0, 9)"]
    requests = [a_request(f"r{n}", text).on(cluster) for n, text in enumerate(texts * 2)]
    return requests, Plan(cluster, cluster.grid()).snapshot()


def test_a_fault_in_a_solve_costs_no_plan(caplog: pytest.LogCaptureFixture) -> None:
    """No memory for the model, say: told as failed, with its kind and the greedy plan."""
    requests, view = too_many()

    def no_memory(*_arguments: object, **_options: object) -> None:
        raise MemoryError("no capacity for the model")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milp_solves, "solve", no_memory)
        results, report = MILP.solve(requests, view, Limits(time_s=5.0))
    assert report.status == "failed"
    assert "MemoryError: no capacity for the model" in report.detail
    assert score_of(requests, results, view.reference)[0] >= greedy_value(requests, view)
    assert "a solve of milp broke" in caplog.text


def test_the_gap_asked_for_is_one_of_value_alone() -> None:
    """A gap of nine tenths ends the solve for value, and no later one counts as proven by it."""
    requests, view = too_many()
    asked = []
    real = solve

    def listening(model: object, limits: SolveLimits, **options: object) -> object:
        asked.append(limits.gap_rel)
        return real(model, limits, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milp_solves, "solve", listening)
        replace(MILP, start=()).solve(requests, view, Limits(time_s=5.0, gap=0.9))
    assert asked[0] == 0.9
    assert asked[1:]
    assert max(asked[1:]) <= 1e-6


def test_a_model_of_nothing_is_written_too(tmp_path: Path) -> None:
    """Who asks for the model of no requests gets one, not silence."""
    cluster = TEN.build()
    view = Plan(cluster, cluster.grid()).snapshot()
    replace(MILP, write_to=tmp_path / "model.lp").solve([], view, Limits(time_s=1.0))
    assert (tmp_path / "model.lp").exists()


def test_a_solver_that_is_not_there_is_misuse() -> None:
    """Not a failed solve that no one notices: an error, also where nothing must be solved."""
    cluster = TEN.build()
    view = Plan(cluster, cluster.grid()).snapshot()
    with pytest.raises(ModelError, match="unknown solver 'gurobi'"):
        replace(MILP, solver="gurobi").solve([unit("a").on(cluster)], view, Limits(time_s=1.0))


def test_a_seed_of_any_size_is_taken() -> None:
    """Solvers keep 31 bits of it."""
    requests, view = too_many()
    report = MILP.solve(requests, view, Limits(time_s=5.0, seed=2**40))[1]
    assert report.status == "optimal"


def sum_asked(requests, view) -> float:  # type: ignore[no-untyped-def]
    """Return the value of everything asked."""
    from planner.agent import total_requested_value

    return total_requested_value(requests, view.reference)


def test_milp_shows_what_it_finds_and_ends_at_the_gap_asked_for() -> None:
    """News carry value and bound in the unit of plans; a gap of a half is no proof of best."""
    cluster, requests = crowded("malleable", 30)
    view = Plan(cluster, cluster.grid()).snapshot()
    seen: list[SolveProgress] = []
    limits = Limits(time_s=60.0, gap=0.5, news=seen.append)
    report = replace(MILP, start=()).solve(requests, view, limits)[1]  # type: ignore[arg-type]
    assert report.gap <= 0.5
    assert report.status == ("optimal" if report.gap <= 1e-5 else "feasible")
    assert seen
    for news in seen:
        assert 0 <= news.value <= news.bound * (1 + 1e-6)
        assert news.bound <= sum_asked(requests, view) * (1 + 1e-6)

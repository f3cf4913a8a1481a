"""One door to every solver: the same claims over every back-end."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lp.arrays import Sense
from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.model import Entries, LinearModel
from lp.result import SolveStatus, StopReason
from lp.solver import export_model, solve
from tests.lp.models import furniture, knapsack
from tests.patience import stopwatch

CONTINUOUS = ("highs", "glop", "pdlp", "pulp:CBC", "pulp:HiGHS")
WHOLE = ("highs", "pulp:CBC", "pulp:HiGHS")


@pytest.mark.parametrize("solver", CONTINUOUS)
def test_hand_example_values_bound_and_duals(solver: str) -> None:
    """Every continuous back-end finds the hand-derived optimum, bound and row duals."""
    solution = solve(furniture(), solver=solver)
    assert solution.status is SolveStatus.OPTIMAL
    assert solution.objective == pytest.approx(36.0, abs=1e-5)
    assert solution.bound == pytest.approx(36.0, abs=1e-5)
    assert solution.block("made") == pytest.approx([2.0, 6.0], abs=1e-5)
    if solver != "pulp:HiGHS":  # the one that gives no duals
        assert solution.duals("plants") == pytest.approx([0.0, 1.5, 1.0], abs=1e-5)
    assert solution.solve_s > 0
    assert solution.build_s > 0


@pytest.mark.parametrize("solver", WHOLE)
def test_whole_variables(solver: str) -> None:
    """7 a + 5 b <= 12 with values 8 and 5: the relaxation gives 96/7, the best pair is (1, 1)."""
    model = LinearModel("pair", Sense.MAXIMISE)
    pair = model.add_block("pair", 2, cost=[8.0, 5.0], integer=True)
    model.add_rows("room", 1, Entries([0, 0], pair.indices, [7.0, 5.0]), upper=12.0)
    solution = solve(model, solver=solver)
    assert solution.status is SolveStatus.OPTIMAL
    assert solution.block("pair") == pytest.approx([1.0, 1.0])
    assert solution.gap <= 1e-6


@pytest.mark.parametrize("solver", CONTINUOUS)
def test_infeasible_is_a_status(solver: str) -> None:
    """x <= 1 and x >= 2 is proven infeasible (or, by presolve, infeasible or unbounded)."""
    model = LinearModel()
    x = model.add_block("x", 1, cost=1.0, upper=1.0)
    model.add_rows("least", 1, Entries([0], x.indices, [1.0]), lower=2.0)
    solution = solve(model, solver=solver)
    assert solution.status in (SolveStatus.INFEASIBLE, SolveStatus.INFEASIBLE_OR_UNBOUNDED)
    assert math.isnan(solution.objective)
    with pytest.raises(ValueError, match="no values to read"):
        solution.block("x")


@pytest.mark.parametrize("solver", CONTINUOUS)
def test_unbounded_is_a_status(solver: str) -> None:
    """Maximising x with x >= y and nothing above ends unbounded (PDLP may only give up)."""
    model = LinearModel("open", Sense.MAXIMISE)
    x = model.add_block("x", 2, cost=[1.0, 0.0])
    model.add_rows("least", 1, Entries([0, 0], x.indices, [1.0, -1.0]), lower=0.0)
    allowed = {SolveStatus.UNBOUNDED, SolveStatus.INFEASIBLE_OR_UNBOUNDED}
    if solver == "pdlp":
        allowed.add(SolveStatus.NO_ANSWER)
    assert solve(model, SolveLimits(iterations=10_000), solver=solver).status in allowed


@pytest.mark.parametrize("solver", CONTINUOUS)
def test_offset_ranges_free_columns_and_empty_rows(solver: str) -> None:
    """min y + 10 over y free with -3 <= y <= 7 as a row of two sides and a row of nothing: 7."""
    model = LinearModel()
    y = model.add_block("y", 1, cost=1.0, lower=-np.inf)
    model.add_rows("range", 2, Entries([0], y.indices, [1.0]), lower=[-3.0, -1.0], upper=[7.0, 1.0])
    model.offset = 10.0
    solution = solve(model, solver=solver)
    assert solution.status is SolveStatus.OPTIMAL
    assert solution.objective == pytest.approx(7.0, abs=1e-5)


@pytest.mark.parametrize("solver", CONTINUOUS)
def test_models_without_columns(solver: str) -> None:
    """Without variables a model is its offset, or infeasible when a row excludes zero."""
    model = LinearModel()
    model.offset = 4.0
    assert solve(model, solver=solver).objective == 4.0
    model.add_rows("never", 1, Entries([], [], []), lower=1.0)
    assert solve(model, solver=solver).status is SolveStatus.INFEASIBLE


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_whole_models_against_enumeration(seed: int, columns: int, rows: int) -> None:
    """Random models with 0-1 variables: the optimum is the best of all 2^n points."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-4, 5, size=(rows, columns)).astype(float)
    upper = rng.integers(-2, 7, size=rows).astype(float)
    cost = rng.integers(-5, 6, size=columns).astype(float)
    model = LinearModel()
    x = model.add_block("x", columns, cost=cost, upper=1.0, integer=True)
    owner = np.repeat(np.arange(rows), columns)
    model.add_rows(
        "rows", rows, Entries(owner, np.tile(x.indices, rows), matrix.ravel()), upper=upper
    )
    solution = solve(model)
    points = np.array(list(itertools.product((0.0, 1.0), repeat=columns)))
    feasible = points[(points @ matrix.T <= upper + 1e-9).all(axis=1)]
    if not len(feasible):
        assert solution.status is SolveStatus.INFEASIBLE
    else:
        assert solution.status is SolveStatus.OPTIMAL
        assert solution.objective == pytest.approx((feasible @ cost).min(), abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_continuous_backends_agree(seed: int) -> None:
    """On random feasible bounded models every continuous back-end finds the same optimum."""
    rng = np.random.default_rng(seed)
    rows, columns = 6, 8
    matrix = rng.uniform(0.1, 1.0, size=(rows, columns))
    model = LinearModel("random", Sense.MAXIMISE)
    x = model.add_block("x", columns, cost=rng.uniform(0.1, 1.0, size=columns))
    owner = np.repeat(np.arange(rows), columns)
    model.add_rows(
        "rows",
        rows,
        Entries(owner, np.tile(x.indices, rows), matrix.ravel()),
        upper=rng.uniform(1.0, 5.0, size=rows),
    )
    expected = solve(model).objective
    for solver in ("glop", "pdlp", "pulp:CBC"):
        assert solve(model, solver=solver).objective == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("solver", WHOLE)
def test_time_limited_answer_is_not_optimal(solver: str) -> None:
    """A model that cannot be proven in a second ends feasible with a gap, never optimal."""
    solution = solve(knapsack(100, 25, 1), SolveLimits(time_s=1.0), solver=solver)
    assert solution.status is SolveStatus.FEASIBLE
    assert solution.stop is StopReason.TIME
    assert solution.gap > 0
    assert solution.bound >= solution.objective


def test_work_limits_repeat_exactly() -> None:
    """Deterministic mode: equal node limits and seeds give equal values, bound and node counts."""
    limits = SolveLimits(nodes=20, deterministic=True, seed=3)
    first, second = (solve(knapsack(60, 10, 2), limits) for _ in range(2))
    assert first.status is SolveStatus.FEASIBLE
    assert first.stop is StopReason.WORK
    assert np.array_equal(first.values, second.values)
    assert (first.bound, first.nodes) == (second.bound, second.nodes)


def test_deterministic_mode_refuses_a_clock() -> None:
    """A time limit with deterministic mode is misuse, and the message says what to do."""
    with pytest.raises(ValueError, match="limit nodes or iterations"):
        SolveLimits(time_s=1.0, deterministic=True)


def test_watchdog_kills_an_overrunning_solver() -> None:
    """A solver that ignores its limit is killed, and its best reported answer is kept."""
    model = knapsack(200, 30, 3)
    limits = SolveLimits(
        time_s=0.5, watchdog=True, watchdog_grace_s=0.5, options={"time_limit": 600.0}
    )
    with stopwatch() as taken:
        solution = solve(model, limits)
    assert taken.seconds < 8
    assert solution.stop is StopReason.KILLED
    assert solution.status is SolveStatus.FEASIBLE
    assert model.assemble().violation(solution.values) <= 1e-6
    assert solution.bound >= solution.objective


def test_watchdog_returns_the_childs_answer_and_errors() -> None:
    """A watched solve gives the same answer; misuse in the child is raised in the parent."""
    limits = SolveLimits(time_s=20.0, watchdog=True)
    solution = solve(furniture(), limits)
    assert solution.block("made") == pytest.approx([2.0, 6.0])
    with pytest.raises(ValueError, match="refuses option 'no_such_option'"):
        solve(furniture(), SolveLimits(time_s=20.0, watchdog=True, options={"no_such_option": 1}))


def test_monitor_sees_better_answers_and_stops() -> None:
    """Reports of answers carry feasible values; a stop ends the solve with the best of them."""
    model = knapsack(100, 25, 1)
    told: list[Progress] = []

    def better() -> list[Progress]:
        return [report for report in told if report.values is not None]

    monitor = Monitor(on_progress=told.append, should_stop=lambda: len(better()) >= 2)
    solution = solve(model, SolveLimits(time_s=30.0), monitor=monitor)
    assert solution.stop is StopReason.STOPPED
    assert solution.status is SolveStatus.FEASIBLE
    assert len(better()) >= 2
    for report in better():
        assert report.values is not None
        assert model.assemble().violation(report.values) <= 1e-6
        assert report.objective <= solution.objective + 1e-6


@pytest.mark.parametrize("watchdog", [False, True])
def test_bounds_are_reported_between_better_answers(watchdog: bool) -> None:
    """Every bound told is one of the optimum, in this process or a child; none is told twice."""
    model = knapsack(40, 5, 1)
    told: list[Progress] = []
    limits = SolveLimits(time_s=60.0, watchdog=watchdog)
    solution = solve(model, limits, monitor=Monitor(on_progress=told.append))
    bounds = [report.bound for report in told if report.values is None]
    assert bounds
    assert len(set(bounds)) == len(bounds)
    assert min(bounds) >= solution.objective * (1 - 1e-6)


def test_warm_start_values_are_kept() -> None:
    """With no nodes to search, the answer is at least as good as the values given."""
    model = knapsack(60, 5, 4)
    best = solve(model, SolveLimits(time_s=10.0, gap_rel=1e-2))
    again = solve(model, SolveLimits(nodes=0), start=WarmStart(values=best.values))
    assert again.objective >= best.objective - 1e-6


def test_warm_start_basis_saves_iterations() -> None:
    """From the optimal basis of the same model no simplex iteration is left to do."""
    model = knapsack(60, 20, 5)
    arrays = model.assemble()
    relaxed = LinearModel("relaxed", Sense.MAXIMISE)
    x = relaxed.add_block("x", arrays.columns, cost=arrays.cost, upper=1.0)
    owner = np.repeat(np.arange(arrays.rows), np.diff(arrays.starts))
    relaxed.add_rows(
        "rows",
        arrays.rows,
        Entries(owner, x.indices[arrays.indices], arrays.values),
        upper=arrays.row_upper,
    )
    first = solve(relaxed, SolveLimits(options={"presolve": "off"}))
    again = solve(
        relaxed, SolveLimits(options={"presolve": "off"}), start=WarmStart(basis=first.basis)
    )
    assert first.iterations > 0
    assert again.iterations == 0
    assert again.objective == pytest.approx(first.objective)


@pytest.mark.parametrize("ending", [".lp", ".mps"])
def test_export_reads_back(tmp_path: Path, ending: str) -> None:
    """An exported model carries block names and has the same optimum when read again."""
    import highspy

    path = tmp_path / f"model{ending}"
    export_model(furniture(), path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    highs.run()
    assert abs(highs.getInfo().objective_function_value) == pytest.approx(36.0)
    assert "made(1)" in path.read_text()
    with pytest.raises(ValueError, match=r"ends in \.lp or \.mps"):
        export_model(furniture(), tmp_path / "model.txt")


@pytest.mark.parametrize("order", [("highspy", "ortools"), ("ortools", "highspy")])
def test_libraries_load_in_both_orders(order: tuple[str, str]) -> None:
    """highspy and OR-tools share a process, whichever is imported first, and both solve."""
    imports = {
        "highspy": "import highspy",
        "ortools": "from ortools.linear_solver.python import model_builder_helper;"
        "from ortools.sat.python import cp_model",
    }
    script = (
        f"{imports[order[0]]}\n{imports[order[1]]}\n"
        "from lp.solver import solve\nfrom tests.lp.models import furniture\n"
        "for solver in ('highs', 'glop', 'pdlp'):\n"
        "    assert abs(solve(furniture(), solver=solver).objective - 36) < 1e-4\n"
        "assert solve(furniture(integer=True)).objective == 36\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("gurobi", "expected highs, glop, pdlp or pulp:NAME"),
        ("pulp:NOSUCH", "PuLP knows no solver 'NOSUCH'"),
        ("pulp:CPLEX_CMD", "not installed"),
    ],
)
def test_unknown_solvers_are_named(solver: str, message: str) -> None:
    """A solver that is unknown or missing is an error that says which would do."""
    with pytest.raises(ValueError, match=message):
        solve(furniture(), solver=solver)


def test_continuous_solvers_refuse_whole_variables() -> None:
    """GLOP and PDLP cannot keep variables whole and say so."""
    for solver in ("glop", "pdlp"):
        with pytest.raises(ValueError, match="use highs or pulp:CBC"):
            solve(furniture(integer=True), solver=solver)

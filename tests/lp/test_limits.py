"""Limits and options that no solver can keep: said where they are given, in our own error."""

from __future__ import annotations

import math
from pathlib import Path

import highspy
import pytest

from lp.limits import ModelError, SolveLimits
from lp.model import LinearModel
from lp.result import Solution, SolveStatus, StopReason
from lp.solver import _check_answer, export_model, solve
from tests.lp.models import furniture


@pytest.mark.parametrize("solver", ["highs", "glop", "pdlp", "pulp:CBC"])
@pytest.mark.parametrize("field", ["seed", "nodes", "iterations"])
def test_numbers_past_32_bits_are_taken(solver: str, field: str) -> None:
    """A seed of any size is a seed, and a limit that a solver cannot count to is none."""
    limits = SolveLimits(time_s=10.0, **{field: 2**40 + 7})  # type: ignore[arg-type]
    assert solve(furniture(), limits, solver=solver).objective == pytest.approx(
        solve(furniture()).objective, rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", 10**9), ("threads", -1), ("time_s", math.nan), ("gap_rel", -0.1), ("nodes", -1)],
)
def test_limits_that_no_one_could_keep_are_refused(name: str, value: float) -> None:
    """A thousand million threads would be started, one by one: the field and what is right."""
    with pytest.raises(ModelError, match=f"{name} is .*expected"):
        SolveLimits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", ["highs", "glop", "pdlp", "pulp:CBC"])
def test_an_option_that_the_solver_does_not_know_is_named(solver: str) -> None:
    """Whichever the solver, misuse is one error with the option's name, and no status."""
    with pytest.raises(ModelError, match="no_such_option"):
        solve(furniture(), SolveLimits(options={"no_such_option": 1}), solver=solver)


def test_a_solver_that_broke_proves_nothing() -> None:
    """The bound of a failed solve is infinite, as the result says, never NaN."""
    model = furniture().assemble()
    told = Solution(SolveStatus.FAILED, StopReason.CRASHED, "none")
    assert _check_answer(told, model, 0.0).bound == math.inf


@pytest.mark.parametrize("ending", [".lp", ".mps"])
@pytest.mark.parametrize("name", ["nowhere/model", "folder", "full"])
def test_a_model_that_cannot_be_written_is_an_error(
    tmp_path: Path, name: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such folder, a folder in its place, a full disk: an error with the path, no part of it."""
    (tmp_path / f"folder{ending}").mkdir()
    if name == "full":
        monkeypatch.setattr(highspy.Highs, "writeModel", lambda _self, path: _first_line(path))
    with pytest.raises((ModelError, OSError), match=name):
        export_model(furniture(), tmp_path / f"{name}{ending}")
    assert [one.name for one in tmp_path.iterdir()] == [f"folder{ending}"]


def _first_line(path: str) -> highspy.HighsStatus:
    Path(path).write_text("NAME\n")
    return highspy.HighsStatus.kOk


@pytest.mark.parametrize("ending", [".lp", ".mps"])
def test_a_model_of_nothing_is_written(tmp_path: Path, ending: str) -> None:
    """No variables and no rows are a model too."""
    export_model(LinearModel(), tmp_path / f"empty{ending}")
    assert (tmp_path / f"empty{ending}").stat().st_size > 0


def test_a_strange_ending_is_reported() -> None:
    """The form follows the name, so a name says nothing with another ending."""
    with pytest.raises(ModelError, match=r"ends in \.lp or \.mps"):
        export_model(furniture(), Path("model.txt"))

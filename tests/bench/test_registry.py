"""The bench runner: cases are found without being imported, and run by their contract."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.registry import BenchError, find_cases, run_case

FOLDER = Path(__file__).parents[2] / "bench"
CASE = 'NAME = "{name}"\n\n\ndef run(small):\n    return {{}}\n'


def test_cases_are_found_by_name_and_never_imported(tmp_path: Path) -> None:
    """A module with NAME and run is a case; helpers are not; nothing is executed."""
    (tmp_path / "b.py").write_text(CASE.format(name="second") + "raise RuntimeError\n")
    (tmp_path / "a.py").write_text(CASE.format(name="zeroth"))
    (tmp_path / "helper.py").write_text("x = 1\n")
    assert find_cases(tmp_path) == {"second": "b", "zeroth": "a"}


def test_a_case_without_run_or_with_a_taken_name_is_an_error(tmp_path: Path) -> None:
    """What cannot be run is reported when cases are listed, not when they are run."""
    (tmp_path / "a.py").write_text('NAME: str = "one"\n')
    with pytest.raises(BenchError, match="no run"):
        find_cases(tmp_path)
    (tmp_path / "a.py").write_text(CASE.format(name="one"))
    (tmp_path / "b.py").write_text(CASE.format(name="one"))
    with pytest.raises(BenchError, match="both named 'one'"):
        find_cases(tmp_path)


def test_a_result_needs_params_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that returns anything else is named."""
    import bench.cases.service.start

    monkeypatch.setattr(bench.cases.service.start, "run", lambda small: {"figures": {}})
    with pytest.raises(BenchError, match="'start' returns a mapping"):
        run_case("start", "cases.service.start", small=True)


def test_a_result_says_what_was_measured_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON of a run has case, params, figures and machine."""
    import bench.cases.service.start

    outcome = {"params": {"small": True}, "figures": {"x_ms": 1.5}}
    monkeypatch.setattr(bench.cases.service.start, "run", lambda small: outcome)
    result = run_case("start", "cases.service.start", small=True).to_json()
    assert list(result) == ["case", "params", "figures", "machine"]
    assert json.loads(json.dumps(result))["figures"] == {"x_ms": 1.5}


def test_every_case_of_the_project_is_listed() -> None:
    """`python -m bench --list` names exactly the cases in bench/; misuse ends with 2."""
    listed = _bench("--list")
    assert listed.stdout.split() == list(find_cases(FOLDER))
    assert _bench("nope").returncode == 2
    assert _bench("start", "--small", "--keep").returncode == 2


def _bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)

"""All experiments into one folder, whatever fails; and verdicts on claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.papers import __main__ as command
from bench.papers import everything
from bench.papers.catalogue import EXPERIMENTS, Experiment
from bench.papers.experiment import DOES_NOT_HOLD, HOLDS, ExperimentResult, verdict
from service.cli.kit.errors import DONE, USAGE, CliError
from tests.papers.command_line import papers


@pytest.mark.parametrize(
    ("figure", "claimed", "said"),
    [
        (2.4, "about 2", HOLDS),
        (2.6, "about 2", DOES_NOT_HOLD),
        (1.0, "1", HOLDS),
        (0.85, "1", DOES_NOT_HOLD),
        (0.0, "0", HOLDS),
        (0.01, "0", DOES_NOT_HOLD),
        (1.21, "above 1.2", HOLDS),
        (0.85, "below 0.85", DOES_NOT_HOLD),
        (0.2, "near 0", HOLDS),
        (19.3, "near 0", DOES_NOT_HOLD),
        (1.1, "stable", HOLDS),
        (3.0, "at most 2.5", DOES_NOT_HOLD),
        (1.09, "1.20", HOLDS),
        (1.09, "1.20 within 0.05", DOES_NOT_HOLD),
        (1.16, "1.20 within 0.05", HOLDS),
        (0.95, "1 within 0.01", DOES_NOT_HOLD),
        (1.0, "not stated", None),
        (1.0, "below that of sjf-2d", None),
        (1.0, "", None),
    ],
)
def test_claims_are_judged_by_their_words(figure: float, claimed: str, said: str | None) -> None:
    """A number within a tenth, one that is about so within a quarter, and bounds as they are."""
    assert verdict(figure, claimed) == said


def test_every_experiment_is_listed_with_time_traces_claim_and_verdict() -> None:
    """Nothing is run blindly: the list says how long, on what, what is claimed, what was found."""
    listed = json.loads(papers("-o", "json").stdout)
    assert [one["name"] for one in listed] == list(EXPERIMENTS)
    for one in listed:
        assert one["time"] in ("seconds", "minutes", "hours")
        assert one["claim"]
        assert one["found"] in ("holds", "does not hold", "in part") or "none" in one["claim"]
    table = papers().stdout
    assert all(name in table for name in EXPERIMENTS)


def test_a_folder_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, pictures and one page; what has no traces or fails is named, the rest continues."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    chosen = {name: EXPERIMENTS[name] for name in ("zoe-baseline", "lotes-trace", "zoe-example")}
    monkeypatch.setattr(command, "EXPERIMENTS", chosen)
    monkeypatch.setattr(everything, "EXPERIMENTS", chosen)
    run = Experiment.run

    def run_or_fail(self: Experiment, effort: object) -> ExperimentResult:
        if self.name == "zoe-baseline":
            raise CliError("it broke")
        return run(self, effort)  # type: ignore[arg-type]

    monkeypatch.setattr(Experiment, "run", run_or_fail)
    done = papers("all", "--small", "--out", tmp_path / "new")

    assert done.exit_code == DONE, done.output
    assert "not run: zoe-baseline, lotes-trace" in done.stderr
    page = (tmp_path / "new" / "index.md").read_text()
    assert "Not run: it broke." in page
    assert "Not run: needs google2011/ in the folder that AGENDA_TRACES names." in page
    assert "![zoe-example](zoe-example.svg)" in page
    assert (tmp_path / "new" / "zoe-example.svg").exists()
    assert json.loads((tmp_path / "new" / "zoe-example.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("all",), "--out DIR goes with the name all"),
        (("zoe-example", "--out", "x"), "--out DIR goes with the name all"),
        (("all", "--out", "x", "--jobs", "y.csv"), "all takes --out, --seeds, --small"),
    ],
)
def test_options_of_one_and_of_all_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    """What an option would do with the other is not guessed."""
    monkeypatch.chdir(tmp_path)
    done = papers(*arguments)
    assert done.exit_code == USAGE
    assert said in done.stderr
    assert not (tmp_path / "x").exists()

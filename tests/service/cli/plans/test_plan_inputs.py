"""What `agenda plan` reads: lines, one request in RDL, standard input; and whom it can ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.agents import AGENT_NAMES
from service.cli.kit.errors import DONE, ERROR
from service.cli.kit.options import AGENT_LINES, complete_agent
from service.cli.main import main
from tests.service.cli.command_line import SECONDS, agenda

TEXT = "window(atom(<1 cpu>, 1, 10, 10, 100), 0, 800)"
TREE = {
    "window": {
        "start": 0,
        "end": 800,
        "of": {"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 10, "lease": 10, "work": 100}},
    }
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a cluster file with a queue."""
    path = tmp_path / "cluster.toml"
    path.write_text(SECONDS + '\n[[queues]]\nname = "batch"\n')
    return path


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(TREE, indent=2),
        json.dumps({"id": "nightly", "tenant": "ads", "queue": "batch", "rdl": TEXT}) + "\n",
    ],
    ids=["text", "json", "lines"],
)
@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
def test_a_request_is_read_in_every_form(
    cluster: Path, tmp_path: Path, text: str, stdin: bool
) -> None:
    """RDL text, RDL JSON and lines give the same plan, from a file and from standard input."""
    file = tmp_path / "nightly.rdl"
    file.write_text(text)
    given = "-" if stdin else str(file)
    words = ["plan", str(cluster), given, "--tenant", "ads", "--queue", "batch", "-o", "json"]
    done = CliRunner().invoke(main, words, input=text, catch_exceptions=False)
    assert done.exit_code == DONE, done.output
    (held,) = json.loads(done.stdout)["reservations"]
    assert held["atoms"][0]["allocation"] == [[0, 10, 10]] or held["tenant"] == "ads"
    assert (held["tenant"], held["queue"]) == ("ads", "batch")
    assert held["id"] == ("request" if stdin and not text.startswith('{"id"') else "nightly")


def test_rdl_that_cannot_be_read_is_shown_with_a_caret(cluster: Path, tmp_path: Path) -> None:
    """It is an error, not a refusal of a workload with one line."""
    file = tmp_path / "job.rdl"
    file.write_text("window(atm(<1 cpu>), 0, 800)")
    done = agenda("plan", cluster, file)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "^^^" in done.stderr


def test_few_reservations_are_reported_with_their_times(cluster: Path, tmp_path: Path) -> None:
    """Who plans one request sees when it runs, by the calendar where there is an origin."""
    file = tmp_path / "job.rdl"
    file.write_text(TEXT)
    words = ("plan", cluster, file, "--queue", "batch", "--agent", "earliest")
    assert "job  default  0s     10s" in agenda(*words).stdout
    cluster.write_text('origin = "2026-01-05T00:00:00Z"\n' + cluster.read_text())
    told = agenda(*words).stdout
    assert "times in UTC" in told
    assert "job  default  2026-01-05 00:00  2026-01-05 00:00:10" in told


def test_every_agent_has_a_line_in_help_and_is_completed() -> None:
    """The table of help and the agents that there are do not part."""
    assert set(AGENT_LINES) == set(AGENT_NAMES)
    shown = agenda("plan", "--help").output
    for name, line in AGENT_LINES.items():
        assert f"  {name:<17}{line}\n" in shown
        assert len(f"    {name:<17}{line}") <= 80
    context = main.make_context("agenda", ["demo"])
    completed = complete_agent(context, main.params[0], "gree,port")
    assert completed == ["gree,portfolio", "gree,portfolio-free"]


def test_a_request_that_cannot_be_read_is_an_error(cluster: Path, tmp_path: Path) -> None:
    """A script stops at it, whether the text or what it says is wrong; a refusal is an answer."""
    out = tmp_path / "plan.json"
    for number, text in enumerate(("atom(<1 cpu>, 4, 2, 1h, 4h)", "atom(<1 cpu>, 1, 2, 1h")):
        file = tmp_path / f"{number}.rdl"
        file.write_text(text)
        lines = tmp_path / f"{number}.jsonl"
        lines.write_text(json.dumps({"id": "bad", "rdl": text}) + "\n")
        for given in (file, lines):
            assert agenda("plan", cluster, given, "--out", out).exit_code == ERROR
            assert agenda("compare", cluster, given, "--agents", "gree").exit_code == ERROR
    assert not out.exists()
    file.write_text("window(atom(<2 cpu>, 1, 1, 10, 10), 0, 800)")
    assert agenda("plan", cluster, file, "--out", out).exit_code == DONE

"""`agenda compare` and what `agenda plan` tells solvers, from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.kit.progress import running
from tests.patience import eventually
from tests.service.cli.command_line import agenda, write_day

CLUSTER = """
step = "60s"
horizon = "1h"
[[machines]]
name = "m"
count = 4
resources = { cpu = 4 }
"""


@pytest.fixture
def day(tmp_path: Path) -> tuple[Path, Path]:
    """Write a cluster and a workload that is crowded in its first minutes."""
    lines = [
        {
            "id": f"r{n}",
            "tenant": "ab"[n % 2],
            "rdl": f"window(atom(<1 cpu>, {4 + n}, {8 + n}, {3 + n}m, {60 * (3 + n) * (8 + n)}), "
            f"0, {10 + n}m)",
        }
        for n in range(4)
    ]
    return write_day(tmp_path, CLUSTER, lines)


def test_limits_for_one_agent_and_for_all(day: tuple[Path, Path]) -> None:
    """`9s` is for each, `milp=1s` for that one; the table has bound, gap and status."""
    done = agenda(
        "compare", *day, "--agents", "gree,milp", "--time-limit", "9s", "--time-limit", "milp=1s",
        "-o", "json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    gree, milp = json.loads(done.stdout)["agents"]
    assert gree["status"] == "placed"
    assert gree["metrics"]["bound"] == milp["metrics"]["bound"]  # the least of both
    assert gree["metrics"]["gap"] >= milp["metrics"]["gap"]
    assert milp["status"] in ("optimal", "feasible")
    assert milp["metrics"]["bound"] >= milp["metrics"]["value"] >= gree["metrics"]["value"]


@pytest.mark.parametrize(("requests", "folded"), [(3, 0), (14, 1)])
def test_long_lists_of_the_page_are_folded(tmp_path: Path, requests: int, folded: int) -> None:
    """Each request is larger than the cluster, so each is in the list of those left out."""
    rdl = "window(atom(<1 cpu>, 17, 17, 10m, 170m), 0, 10m)"
    files = write_day(tmp_path, CLUSTER, [{"id": f"r{n}", "rdl": rdl} for n in range(requests)])
    page = tmp_path / "page.html"
    done = agenda("compare", *files, "--agents", "gree", "--html", page)
    assert done.exit_code in (0, 3), done.output
    text = page.read_text()
    assert text.count("<details><summary>Request by request") == folded
    assert text.count('<td data-name="id">') == requests


@pytest.mark.parametrize("text", ["milk=5s", "milp=", "5 parsecs", "=5s"])
def test_a_limit_no_one_can_read_is_misuse(day: tuple[Path, Path], text: str) -> None:
    """An unknown agent or no duration is a usage error."""
    assert agenda("compare", *day, "--time-limit", text).exit_code == 2


def test_the_model_is_written_and_any_solver_named(day: tuple[Path, Path], tmp_path: Path) -> None:
    """LP text with the names of the paper's rows; CBC by PuLP finds the same value as HiGHS."""
    model, few = tmp_path / "m.lp", tmp_path / "few.jsonl"
    few.write_text("".join(day[1].read_text().splitlines(keepends=True)[:2]))
    plain = ("plan", day[0], few, "--agent", "milp", "--time-limit", "20s", "-o", "json")
    highs = agenda(*plain, "--write-model", model)
    assert highs.exit_code == 0, highs.output
    assert "demand_(3,_10,_11)" in model.read_text()
    cbc = agenda(*plain, "--solver", "pulp:CBC")
    values = [json.loads(done.stdout)["metrics"]["value"] for done in (highs, cbc)]
    assert values[0] == pytest.approx(values[1])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--agent", "gree", "--solver", "highs"), "for the agent milp"),
        (("--agent", "milp", "--solver", "pulp:NOBODY"), "no solver 'NOBODY'"),
        (("--agent", "milp", "--solver", "glop"), "not support integer variables"),
        (("--agent", "milp", "--write-model", "m.txt"), "ends in .lp or .mps"),
    ],
)
def test_solvers_that_cannot_be_used_are_reported(
    day: tuple[Path, Path], options: tuple[str, ...], says: str
) -> None:
    """Exit code 1 and what would be right, before anything is planned."""
    done = agenda("plan", *day, *options)
    assert done.exit_code == 1
    assert says in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_long_work_to_stop(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """^C and a service manager's SIGTERM are the same: the best so far, then the old handlers."""
    before = signal.getsignal(number)
    with running("nothing") as run:
        assert not run.stop()
        os.kill(os.getpid(), number)
        assert run.stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before
    assert "best result so far" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("command", ["compare", "plan"])
def test_a_full_disk_costs_the_file_not_the_answer(day: tuple[Path, Path], command: str) -> None:
    """The table is printed, the message says which file, and the exit code that all is not well."""
    option = "--html" if command == "compare" else "--out"
    done = agenda(command, *day, option, "/dev/full")
    assert done.exit_code == 1
    assert "headroom" in done.stdout
    assert "/dev/full: No space left" in done.stderr


def test_interrupted_the_best_so_far_is_printed(tmp_path: Path) -> None:
    """^C during a long solve: exit code 0, rows that say `stopped` and `not_run`, no traceback."""
    lines = [
        {"id": f"r{n}", "rdl": f"window(order(atom(<1 cpu>, 3, 9, 4m, {36 + n % 5}m), "
         f"atom(<1 cpu>, 5, 7, 3m, {42 + n % 3}m)), {n % 20}m, {60 + n % 30}m)"}
        for n in range(60)
    ]  # fmt: skip
    cluster, workload = tmp_path / "c.toml", tmp_path / "w.jsonl"
    cluster.write_text(CLUSTER.replace('"1h"', '"2h"'))
    workload.write_text("".join(json.dumps({**one, "tenant": "a"}) + "\n" for one in lines))
    command = [sys.executable, "-m", "service.cli.main", "compare", cluster, workload]
    child = subprocess.Popen(
        [*map(str, command), "--agents", "gree,milp,gree-l", "--time-limit", "60s", "-o", "csv"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        eventually(lambda: _solving(child.pid) or child.poll() is not None)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    finally:
        child.kill()
    assert child.returncode == 0, err
    statuses = [line.split(",")[-2] for line in out.splitlines()[1:]]
    assert statuses == ["placed", "stopped", "not_run"], err
    assert "Traceback" not in err


def _solving(pid: int) -> bool:
    """Return whether the process has a solver's process under it."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    for child in listed.read_text().split() if listed.exists() else ():
        if "lp.watchdog_worker" in Path(f"/proc/{child}/cmdline").read_text():
            return True
    return False

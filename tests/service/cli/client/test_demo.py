"""The demo and the client commands against a real server process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from service.cli import demo as rack_scene
from service.cli.kit.errors import AWAY, CONFLICT, DONE, ERROR, REFUSED
from service.example_day import write_example_day
from tests.end_to_end.server_process import serving
from tests.service.cli.command_line import agenda

_WAIT_S = 300  # a cold kernel cache may have to be filled first


def _hear_interrupts() -> None:
    """Undo what a shell in the background passes on: that ^C is not for its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the cluster of the example day; return the URL."""
    folder = tmp_path_factory.mktemp("served")
    cluster, _ = write_example_day(folder)
    with serving(folder / "agenda.db", cluster, agent="gree-l") as running:
        yield f"http://127.0.0.1:{running.port}"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """A demo that stays: what it printed, its server's URL and its folder; ended by ^C.

    It takes half a minute of a core: it runs where `.ci/run` runs what takes long.
    """
    folder = tmp_path_factory.mktemp("demo") / "new"
    begin = [sys.executable, "-m", "service.cli.main", "demo"]
    command = [*begin, "--port", "0", "--directory", str(folder)]
    environment = {**os.environ, "STAY": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        preexec_fn=_hear_interrupts,
    )
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if "^C ends the server" in line:
            break
    address = re.search(r"calls +(http://\S+)/docs", printed)
    assert address is not None, printed
    yield printed, address[1], folder
    process.send_signal(signal.SIGINT)
    assert process.wait(_WAIT_S) == DONE


def client(server: str, *arguments: object) -> Result:
    """Run a client command against the demo's server."""
    return agenda(*arguments, "--server", server)


@pytest.mark.printed
def test_the_demo_shows_what_was_promised(demo: tuple[str, str, Path]) -> None:
    """All requests were answered, some refused by code, and the skyline is drawn."""
    printed, _, folder = demo
    assert re.search(r"^headroom.* +3\d\d +404 ", printed, re.MULTILINE), printed
    assert re.search(r"^ +\d+  capacity$", printed, re.MULTILINE)
    assert "400 requests asked one by one" in printed
    assert "agent headroom" in (folder / "demo.svg").read_text()


#: What a demo tells, each with the time of the day at which it happened.
TOLD = (
    r"400 clients ask for reservations of this day",
    r"\d+ promised, \d+ refused",
    r"you reserve 4 cores as primes: promised from \d\d:\d\d to \d\d:\d\d",
    r"4 processes count primes, on \w+-\d+",
    r"refused: .+",
    r"offered instead, .+: window\(.+",
    r"taken: campaign holds its machines from \d\d:\d\d to \d\d:\d\d",
    r"primes is done: 7,837 primes below 80,000; .+",
    r"rack-\d \(8 machines\) is lost: of the promises of the day .*\d+ \w+.*",
    r"primes-again begins again, on \w+-\d+",
    r"rack-\d is repaired, .+",
    r"primes-again is done: 7,837 primes below 80,000; .+",
    r"found and applied, version \d+ of the Plan: .*\d+ that were refused are promised.*",
    r"you run nightly.toml, a pipeline of extract, build, publish, for 3 nights .*: promised",
    r"night 1: extract completed .+, build completed .+, publish completed .+ is kept",
    r"night 2: .+ after a failure of task 2 \(exit code 1: table 2 is locked\), .+ is kept",
    r"(\w+-\d+) is lost while nightly.extract@2 runs on it; it runs again, on (?!.*\1\b).+",
    r"night 3: extract completed .+, build completed .+, publish completed .+ is kept",
    r"what they wrote: http://\S+/ui/pipelines/nightly",
    r"[1-9]\d* reservations of the day have work: \d+ processes, .+",
)


@pytest.mark.printed
def test_the_demo_shows_what_happens(demo: tuple[str, str, Path]) -> None:
    """Every scene was played, each with the time of the day at which it happened."""
    printed, _, _ = demo
    missing = [
        line for line in TOLD if not re.search(rf"^\d\d:\d\d  {line}", printed, re.MULTILINE)
    ]
    assert missing == [], printed


@pytest.mark.printed
def test_the_next_commands_run_as_printed(demo: tuple[str, str, Path]) -> None:
    """What the demo tells to try next is done by a shell, and answered."""
    printed, _, _ = demo
    begin = printed.index("next, in another shell:")
    lines = [one.strip() for one in printed[begin:].splitlines()[1:] if one.startswith("  ")]
    commands = [one for one in lines if not one.startswith("#")]
    assert len(commands) == 4, printed
    for command in commands:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == DONE, f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.printed
def test_what_the_demo_printed_is_what_the_server_lists(demo: tuple[str, str, Path]) -> None:
    """Accepted and refused requests together are the day, each once, page after page."""
    printed, server, _ = demo
    entries = json.loads(
        client(server, "reservations", "list", "--limit", 5000, "-o", "json").stdout
    )
    ids = {entry["id"] for entry in entries} - {"mine", "whole"}
    assert len(ids) == 404
    refused = json.loads(
        client(server, "reservations", "list", "--state", "refused", "-o", "json").stdout
    )
    assert re.search(rf"^ *{len(refused)}  capacity", printed, re.MULTILINE)


def test_a_reservation_is_submitted_shown_and_cancelled(server: str, tmp_path: Path) -> None:
    """The whole life of one reservation by the command line, with its exit codes."""
    request = tmp_path / "small.rdl"
    request.write_text("window(atom(<1 cpu>,1,2,60,120),+1h,+23h)")
    asked = ("submit", request, "--id", "whole", "--tenant", "me", "--queue", "batch")
    assert client(server, *asked, "--dry-run").exit_code == DONE
    assert client(server, "reservations", "show", "whole").exit_code == ERROR
    done = client(server, *asked, "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (DONE, "accepted")
    assert client(server, *asked).exit_code == DONE
    request.write_text("window(atom(<1 cpu>,1,2,60,180),+1h,+23h)")
    another = client(server, *asked)
    assert another.exit_code == CONFLICT
    assert "whole" in another.stderr
    shown = client(server, "reservations", "show", "whole").stdout
    assert "window(atom(<1 cpu>,1,2,60,120),+1h,+23h)" in shown
    stale = client(server, "reservations", "cancel", "whole", "--revision", 7)
    assert stale.exit_code == CONFLICT
    cancelled = client(server, "reservations", "cancel", "whole", "-o", "json")
    assert json.loads(cancelled.stdout)["state"] == "cancelled"


def test_a_refused_request_exits_with_3(server: str, tmp_path: Path) -> None:
    """No capacity is the answer "no", not an error; a malformed request is an error."""
    request = tmp_path / "wide.rdl"
    request.write_text("window(atom(<1 cpu>,1024,1024,20h,20480h),+1h,+23h)")
    refused = client(server, "submit", request, "--queue", "batch")
    assert refused.exit_code == REFUSED
    assert refused.stderr.startswith("refused (")
    assert "the request needs " in refused.stderr
    request.write_text("window(atom(<1 cpu>,5,2,60,120),+1h,+23h)")
    wrong = client(server, "submit", request, "--queue", "batch")
    assert wrong.exit_code == ERROR
    assert "min 5 is more than max 2" in wrong.stderr


def test_several_lines_are_submitted_as_one_batch(server: str, tmp_path: Path) -> None:
    """Workload lines are posted together, each on its own; their `submitted` is the server's."""
    lines = [
        {"id": f"b{i}", "tenant": "me", "queue": "batch", "submitted": 5,
         "rdl": "window(atom(<1 cpu>,1,1,60,60),+1h,+23h)"}
        for i in range(3)
    ]  # fmt: skip
    path = tmp_path / "three.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = client(server, "submit", path, "-o", "json")
    assert done.exit_code == DONE, done.output
    assert [reply["id"] for reply in json.loads(done.stdout)] == ["b0", "b1", "b2"]


@pytest.mark.printed
def test_a_folder_with_a_plan_is_left_alone(demo: tuple[str, str, Path]) -> None:
    """The demo does not mix its day into a Plan that is already there."""
    done = agenda("demo", "--no-stay", "--directory", demo[2])
    assert done.exit_code == ERROR
    assert "holds a Plan already" in done.stderr


def test_a_bad_line_of_several_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    """One unreadable line ends the call before a server is asked, with its number."""
    lines = tmp_path / "two.jsonl"
    lines.write_text('{"rdl": "atom(<1 cpu>, 1, 1, 60, 60)"}\n{"rdl": oops}\n')

    said = client("http://127.0.0.1:1", "submit", lines)

    assert said.exit_code == ERROR
    assert f"{lines}: line 2 is not a workload line" in said.stderr


def test_a_loss_that_moves_slots_alone_has_been_answered() -> None:
    """Where every reservation keeps its times on other machines, that is the outcome of them."""
    changes = [
        {"version": 7, "kind": "relocate", "detail": ""},
        {"version": 7, "kind": "cluster", "detail": ""},
        {"version": 5, "kind": "degrade", "detail": "degraded"},
    ]
    stage = SimpleNamespace(get=lambda *_, **__: {"changes": changes})
    assert rack_scene._fates(stage, before=5) == {"relocated": 1}  # type: ignore[arg-type]


def test_without_a_server_the_client_says_so() -> None:
    """A refused connection names the server and what to start."""
    done = client("http://127.0.0.1:9", "reservations", "list")
    assert done.exit_code == AWAY
    assert "is `agenda serve` running?" in done.stderr


def test_a_picture_of_no_known_kind_is_reported_before_a_day_is_posted(tmp_path: Path) -> None:
    """What cannot be drawn in the end is not begun."""
    folder = tmp_path / "new"
    arguments = ["demo", "--no-stay", "--directory", folder, "--picture", tmp_path / "x.bmp"]
    done = agenda(*arguments)
    assert done.exit_code == ERROR
    assert "a picture ends in .svg or .png" in done.stderr
    assert not folder.exists()


def test_write_example_writes_the_fixture(tmp_path: Path) -> None:
    """The example day comes out of the installed package, without a server."""
    done = agenda("demo", "--write-example", tmp_path / "day")
    assert done.exit_code == DONE
    fixture = Path(__file__).parents[4] / "fixtures" / "example-day"
    for name in ("cluster.toml", "workload.jsonl", "nightly.toml"):
        assert (tmp_path / "day" / name).read_bytes() == (fixture / name).read_bytes()

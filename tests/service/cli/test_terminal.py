"""Commands on a terminal: long work shows how far it is, and ^C keeps the best so far."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from planner.agent import SolveProgress
from service.cli.kit.errors import DONE, STOPPED
from service.cli.kit.progress import running
from tests.examples import some_of
from tests.service.cli.command_line import MINUTES, agenda, write_day
from tests.service.cli.lotes_files import group, job, writer
from tests.service.cli.terminal import CONTROLS, on_terminal

SEARCHED = r"value [\d,.]+ \([\w-]+\), bound [\d,.]+ \([\w -]+\), gap \d+\.\d\d %"


def day(folder: Path, requests: int) -> tuple[Path, Path]:
    """Write a cluster and more malleable atoms than it holds; return both paths."""
    lines = []
    for index in range(requests):
        height, length = 21 + index % 10, 60 + 7 * (index % 20)
        rdl = f"window(atom(<1 cpu>, 1, {height}, {length}m, {height * length}m), 0, 8h)"
        lines.append({"id": f"r{index}", "rdl": rdl})
    return write_day(folder, MINUTES, lines)


def shown(*arguments: object, key_after: str | None = None, columns: int = 200) -> str:
    """Return what a command that succeeds writes on a terminal; a traceback is a failure."""
    code, written = on_terminal(*arguments, key_after=key_after, columns=columns)
    assert "Traceback" not in written, written
    assert code == DONE, written
    return written


def seen(pattern: str, written: str) -> None:
    """Fail unless a pattern was written."""
    assert re.search(pattern, written), written


@pytest.mark.parametrize("agent", ["exact", "hybrid"])
def test_a_search_is_shown_and_the_best_is_kept(agent: str, tmp_path: Path) -> None:
    """The best plan, what it is bound by, the gap and the seconds that are over; ^C keeps it.

    The search has two minutes; the best plan so far is printed and written.
    """
    best, out = rf"{SEARCHED}.* \d s of 120 s", tmp_path / "plan.json"
    limits = ("--agent", agent, "--time-limit", "2m", "--gap", "0", "--out", str(out))
    written = shown("plan", *day(tmp_path, 20), *limits, key_after=best)
    seen(best, written)
    seen("stopping with the best result so far", written)
    assert json.loads(out.read_text())["reservations"]


class Terminal(io.StringIO):
    """What is written on a terminal."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Return what draws a search on a terminal so wide, by a clock of its own, line by line.

    News come first, as from a model that never says how much is to do; then two seconds of nine.
    """

    def draw(columns: int) -> list[str]:
        times, written = [0.0], Terminal()
        monkeypatch.setattr("sys.stderr", written)
        monkeypatch.setattr("rich.console.monotonic", lambda: times[0])
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        with running("planning") as run:
            run.news(SolveProgress(0.0, 318.633, 1094.5, "search", "prices"))
            run.bar.refresh()
            for second in range(3):
                times[0] = float(second)
                run.progress(second, 9)
            run.bar.refresh()
        return CONTROLS.sub("", written.getvalue()).replace("\r", "\n").splitlines()

    return draw


def test_a_line_fits_eighty_columns(drawn: Callable[[int], list[str]]) -> None:
    """Value, bound, gap, seconds and time left stand on one line of a usual terminal."""
    line = r"value [\d,.]+, bound [\d,.]+, gap [\d.]+ % \S+ +2 s of 9 s +\d:\d\d:\d\d left"
    assert any(re.fullmatch(line, one) and len(one) <= 80 for one in drawn(80))


def test_value_and_bound_are_shown_before_a_limit_is_known(
    drawn: Callable[[int], list[str]],
) -> None:
    """News that come before the first count draw a bar nevertheless, with the time that is over."""
    assert any(re.match(SEARCHED + r" \S+ +0:00:0", one) for one in drawn(200))


@pytest.mark.parametrize("agent", some_of(["gree-l", "portfolio"], 1))
def test_greedy_agents_count(agent: str, tmp_path: Path) -> None:
    """How many requests or runs of all are done."""
    written = shown("plan", *day(tmp_path, 400), "--agent", agent)
    seen(rf"planning with {agent}.* [\d,]+ of [\d,]+", written)


def test_compare_shows_every_agent(tmp_path: Path) -> None:
    """An agent that counts and one that searches share the bar."""
    limits = ("--agents", "gree,exact", "--time-limit", "exact=2m")
    seen(SEARCHED, shown("compare", *day(tmp_path, 20), *limits, key_after=SEARCHED))


def test_optimize_shows_the_best_so_far(tmp_path: Path) -> None:
    """Elapsed seconds, value, bound and gap stand on one line; ^C keeps the best."""
    plan = tmp_path / "plan.json"
    made = [*day(tmp_path, 20), "--agent", "gree", "--out", str(plan)]
    assert agenda("plan", *made).exit_code == DONE
    given = (str(plan), "--admit-refused", "--time-limit", "2m")
    best = r"\d s: value [\d,.]+, at most [\d,.]+, gap [\d.]+%"
    written = shown("optimize", *given, key_after=best)
    seen(best, written)
    seen("stopping with the best result so far", written)


def test_lotes_counts_its_stages(tmp_path: Path) -> None:
    """Reading and solving are two stages."""
    paths = writer(tmp_path)(group("m", 2, "cpu = 5"), "classes.toml", job("three", "cpu = 3"))
    seen("job classes.* 2 of 2", shown("lotes", *paths))


class Optimizing(BaseHTTPRequestHandler):
    """A server that has begun, then tells its best, then is done."""

    def _answer(self, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _state(self, state: str, progress: Any) -> dict[str, Any]:
        return {"id": "o1", "state": state, "progress": progress, "result": None, "reason": None}

    def do_POST(self) -> None:
        """Begin one."""
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self._answer(self._state("running", {}))

    def do_GET(self) -> None:
        """Tell the best once, then that it is over."""
        looks = self.server.looks = self.server.looks + 1  # type: ignore[attr-defined]
        best = {"elapsed": 2.0, "value": 10.0, "bound": 12.0, "gap": 1 / 6, "source": "search"}
        self._answer(self._state("running" if looks == 1 else "stopped", best))

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def optimizing() -> Iterator[str]:
    """Serve an optimisation that ends after two looks; return its URL."""
    server = HTTPServer(("127.0.0.1", 0), Optimizing)
    server.looks = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", [("start",), ("stop", "o1"), ("show", "o1")])
def test_an_optimisation_of_a_server_is_shown(command: tuple[str, ...], optimizing: str) -> None:
    """`start` and `stop` show the best while they wait; `show` asks once."""
    code, written = on_terminal("optimizations", *command, "--server", optimizing)
    assert "Traceback" not in written
    if command[0] != "show":
        seen(r"2 s: value 10\.0, at most 12\.0, gap 16\.67%, by search", written)
    assert code in (DONE, 1), written


def test_the_demo_counts_its_requests() -> None:
    """Requests of the example day that were answered, how fast; ^C then ends it all."""
    counted = r"asking for reservations.* \d+ of 400, [\d,.]+ a second"
    code, written = on_terminal("demo", "--no-stay", key_after=counted)
    seen(counted, written)
    assert "Traceback" not in written, written
    assert code == STOPPED, written

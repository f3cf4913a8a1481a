"""The check of ticks finds what it is to find: else no end-to-end test would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.end_to_end.checked_ticks import EVERY, FAULT, check_ticks
from tests.end_to_end.fork_server import fork_with_log


class _Tenure:
    """A tenure whose check always finds something."""

    def tick(self, now_ms: int) -> int:
        """Answer with the time."""
        return now_ms

    def check(self) -> list[str]:
        """Find something."""
        return ["something"]


def test_every_tenth_tick_is_checked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick answers what it did, and each fault is a line of the log."""
    monkeypatch.setattr(_Tenure, "tick", _Tenure.tick)
    check_ticks(_Tenure)
    tenure = _Tenure()
    assert [tenure.tick(number) for number in range(2 * EVERY)] == list(range(2 * EVERY))
    assert caplog.messages == [f"{FAULT}something"] * 2


def test_what_is_forked_is_checked_and_is_told_of_as_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the folder, arguments and environment of now and a session, and ends as told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENDA_TEST_WORD", "now")
    code = (
        "import os, sys; from service.dispatching.tenure import Tenure; "
        "print(Tenure.tick.__name__, sys.argv, os.environ['AGENDA_TEST_WORD'], os.getcwd(), "
        "os.getsid(0) == os.getpid()); sys.stdout.flush(); "
        "sys.argv[1] == 'ends' or __import__('time').sleep(600); sys.exit(3)"
    )
    log = tmp_path / "log"

    assert fork_with_log(code, ["ends"], log).wait() == 3
    stays = fork_with_log(code, ["stays"], log)
    assert (stays.poll(), os.getsid(stays.pid)) == (None, stays.pid)
    stays.kill()
    assert (stays.wait(), stays.poll()) == (-9, -9)
    first = log.read_text().splitlines()[0]
    assert first == f"checked ['-c', 'ends'] now {tmp_path} True"

"""What a Slurm is asked at the start: the right to make reservations, and slurmrestd."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.capabilities import _find_rest, _permission_problems
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.settings import SlurmSettings

_SETTINGS = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="me")


class _Slurm:
    """A Slurm that keeps names of reservations, and may fail at one of two commands."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.fails: dict[str, SlurmError] = {}

    def create_reservation(self, name: str, *_: object) -> None:
        if "create" in self.fails:
            raise self.fails["create"]
        if name in self.there:
            raise SlurmError("Duplicate reservation name")
        self.there.append(name)

    def delete_reservation(self, name: str) -> None:
        if "delete" in self.fails:
            raise self.fails["delete"]
        self.there.remove(name)


def _problems(slurm: _Slurm) -> Iterable[str]:
    return list(_permission_problems(_SETTINGS, cast("Any", slurm)))


def test_a_try_that_was_left_behind_hinders_no_other() -> None:
    """A server was killed, or slurmctld did not answer, before it was deleted."""
    slurm = _Slurm()
    slurm.fails["delete"] = SlurmAwayError("no answer")
    with pytest.raises(SlurmAwayError):
        _problems(slurm)
    slurm.fails.clear()
    assert _problems(slurm) == []
    assert len(slurm.there) == 1
    assert slurm.there[0].startswith("agenda_")  # so that the keeper of reservations deletes it


def test_a_try_that_the_keeper_deleted_first_is_no_problem() -> None:
    """Another server's, of the same prefix."""
    slurm = _Slurm()
    slurm.fails["delete"] = SlurmError("Requested reservation is invalid")
    assert _problems(slurm) == []


def test_who_may_make_no_reservation_is_told_so_and_a_silent_slurm_is_waited_for() -> None:
    """The two are not taken for each other."""
    slurm = _Slurm()
    slurm.fails["create"] = SlurmError("Access/permission denied")
    (problem,) = _problems(slurm)
    assert problem.startswith("no reservation can be made as me: Access/permission denied")
    slurm.fails["create"] = SlurmAwayError("no answer")
    with pytest.raises(SlurmAwayError):
        _problems(slurm)


class _Refusing(http.server.BaseHTTPRequestHandler):
    """A slurmrestd that takes no token."""

    code = 401

    def do_GET(self) -> None:
        self.send_error(self.code)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _WithoutController(_Refusing):
    """A slurmrestd whose slurmctld is away."""

    def do_GET(self) -> None:
        body = b'{"errors": [{"error": "Zero Bytes"}]}'
        self.send_response(502)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _ProxyAlone(_Refusing):
    """A proxy whose slurmrestd is down: it answers in its place, in HTML."""

    code = 503


@contextmanager
def _served(handler: type[_Refusing]) -> Iterator[str]:
    """Return the URL of a server on loopback."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _with_rest(url: str, folder: Path) -> SlurmSettings:
    (folder / "token").write_text("a token")
    return replace(_SETTINGS, rest=url, api="v0.0.38", token_file=str(folder / "token"))


def test_a_slurmrestd_that_is_away_hinders_no_start(tmp_path: Path) -> None:
    """It is kept, to be asked again, and a warning says who answers meanwhile."""
    problems: list[str] = []
    rest, warnings = _find_rest(_with_rest("http://127.0.0.1:9", tmp_path), problems)
    assert rest is not None
    assert not problems
    assert warnings[0].startswith("slurmrestd does not answer yet, commands are asked in its place")


def test_a_proxy_whose_slurmrestd_is_away_hinders_no_start(tmp_path: Path) -> None:
    """It answers 503 in its place: as little as no answer."""
    problems: list[str] = []
    with _served(_ProxyAlone) as url:
        _, warnings = _find_rest(_with_rest(url, tmp_path), problems)
    assert not problems
    assert "503" in warnings[0]


def test_a_slurmctld_that_slurmrestd_says_is_away_is_waited_for(tmp_path: Path) -> None:
    """It is no problem of the settings."""
    with _served(_WithoutController) as url, pytest.raises(SlurmAwayError):
        _find_rest(_with_rest(url, tmp_path), [])


def test_a_slurmrestd_that_refuses_its_token_is_a_problem(tmp_path: Path) -> None:
    """No waiting would mend it."""
    problems: list[str] = []
    with _served(_Refusing) as url:
        _, warnings = _find_rest(_with_rest(url, tmp_path), problems)
    assert not warnings
    assert problems[0].startswith("slurmrestd: ")
    assert "401" in problems[0]


def test_without_slurmrestd_nothing_is_asked() -> None:
    """Commands answer then."""
    assert _find_rest(_SETTINGS, []) == (None, ())

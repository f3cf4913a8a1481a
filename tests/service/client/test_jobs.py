"""Client.run: a job of several stages from a program, against a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import agenda
from agenda.async_client import AsyncJob, _iterated, _pause
from agenda.errors import problem_of
from agenda.jobs import log_pieces

RDL = "window(order(a: atom(<1 cpu>, 1, 1, 1, 1), b: atom(<1 cpu>, 1, 1, 1, 1)), +0, +20m)"
FILE = f"""
rdl = "{RDL}"
[stages.a]
command = "x"
[stages.b]
command = ["y", "z"]
"""


def job(id_: str, **more: Any) -> dict[str, Any]:
    """Return a job of two stages of a second each."""
    return {"id": id_, "rdl": RDL, "stages": {"a": {"command": "x"}, "b": {"command": "y"}}, **more}


def test_a_job_file_runs_and_is_waited_for(address: str, tmp_path: Path) -> None:
    """Fields of the call replace those of the file; a key makes one job of two calls."""
    path = tmp_path / "job.toml"
    path.write_text(FILE)
    client = agenda.Client(address)
    made = client.run(path, id="filed-job", margin="5m", key="once")
    again = client.run(str(path), id="filed-job", margin="5m", key="once")

    assert (made.id, again.id) == ("filed-job", "filed-job")
    assert made.raw["reservation"]["finish"] <= made.raw["reservation"]["begin"] + 900
    assert made.wait(timeout_s=120) == "succeeded"
    assert client.job("filed-job").stages() == {"a": "completed", "b": "completed"}
    with pytest.raises(agenda.SettingError, match="has no run 7; it has had 1"):
        made.state(7)
    with pytest.raises(agenda.SettingError, match="no stage 'aa'; did you mean 'a'"):
        made.logs("aa")


def test_a_check_and_a_refusal_leave_nothing(address: str) -> None:
    """The check says what would be; the refusal has offers."""
    client = agenda.Client(address)
    checked = client.run(job("maybe"), check=True)
    assert [one["name"] for one in checked.raw["stages"]] == ["a", "b"]
    with pytest.raises(agenda.RefusedError):
        client.run(job("large", rdl=RDL.replace("1, 1, 1, 1", "99, 99, 1, 99")))
    for id_ in ("maybe", "large"):
        with pytest.raises(agenda.NotFoundError):
            client.job(id_)


def test_a_cancelled_job_ends_its_stages(address: str) -> None:
    """Those that wait, too."""
    client = agenda.Client(address)
    made = client.run(job("late-job", rdl=RDL.replace("+0, +20m", "+10m, +20m")))
    assert made.state() == "running"
    with pytest.raises(agenda.WaitTimeoutError, match="late-job has not ended within"):
        made.wait(timeout_s=0)
    made.cancel()
    assert made.wait(timeout_s=60) == "failed"
    assert set(made.stages().values()) <= {"killed", "failed"}
    assert client.get("late-job").state == "cancelled"
    made.cancel()  # what has ended stays so


def test_a_run_that_is_not_there_yet_is_waited_for(address: str) -> None:
    """Unless it will not come."""
    client = agenda.Client(address)
    rdl = f"every(20m, {RDL.replace('+0, +20m', '6s, 10m')}, times=2)"
    made = client.run(job("recurs", rdl=rdl))
    assert (made.state(), made.state(0)) == ("waiting", "waiting")
    assert made.wait(0, timeout_s=120) == "succeeded"
    assert (made.state(), made.state(1)) == ("succeeded", "waiting")
    with pytest.raises(agenda.SettingError, match="run 1 has not begun"):
        made.logs("a", 1)
    made.cancel()
    with pytest.raises(agenda.SettingError, match="has no run 1; it has had 1"):
        made.wait(1, timeout_s=120)


@pytest.mark.parametrize(("code", "ended"), [("wrong_state", 40), ("duplicate_id", 0)])
def test_a_job_whose_reservation_has_ended_is_ended_page_by_page(code: str, ended: int) -> None:
    """Every stage that still runs; another conflict is an error."""
    deleted = []

    def call(method: str, path: str, body: object, query: Any) -> Any:
        if path == "/v1/reservations/late":
            raise problem_of(409, {"code": code})
        if method == "DELETE":
            deleted.append(path)
            return {}
        end = 40 if query is None else query["before"]
        runs = [
            {"run": n, "stages": [{"state": "running", "application": f"late.a@{n}"}]}
            for n in range(max(end - 30, 0), end)
        ]
        return {"runs": runs, "next": max(end - 30, 0) or None}

    made = agenda.Job(call, "late", {"id": "late"})
    with nullcontext() if ended else pytest.raises(agenda.StateConflictError):
        made.cancel()
    assert len(set(deleted)) == ended


def test_logs_of_a_run_that_is_no_longer_kept_are_left_out() -> None:
    """Removed between the list of what there is and the read of it."""

    def call(method: str, path: str, body: object, query: Any) -> Any:
        if query.get("limit") != 0:
            return {"detail": "", "logs": []}
        return {"detail": "", "logs": [{"run": "r", "stream": "stdout", "size": 5}]}

    assert list(log_pieces(call, ["old"], {}, follow=False)) == []


def test_logs_of_an_older_server_name_no_task() -> None:
    """Its answer has no such field."""
    log = {"component": "c", "index": 0, "machine": "m", "run": "r", "stream": "stdout", "size": 2}

    def call(method: str, path: str, body: object, query: Any) -> Any:
        return {"detail": "", "logs": [{**log, "start": 0, "end": 2, "text": "hi"}]}

    (piece,) = log_pieces(call, ["old"], {}, follow=False)
    assert (piece.text, piece.task) == ("hi", None)


def test_a_cancelled_reader_of_logs_leaves_no_thread() -> None:
    """Though the work goes on, and writes nothing."""

    def call(method: str, path: str, body: object, query: Any) -> Any:
        return {"detail": "", "logs": []} if path.endswith("/logs") else {"state": "running"}

    async def play() -> None:
        pause = partial(_pause, time.sleep)
        pieces = log_pieces(call, ["silent"], {}, follow=True, pause=pause)
        async with asyncio.timeout(0.2):
            async for _ in _iterated(pieces):
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(play())
    for thread in threading.enumerate():
        if thread.name.startswith("agenda-watch"):
            thread.join(60)
            assert not thread.is_alive()


def test_a_timeout_inside_a_wait_is_not_its_own() -> None:
    """It reaches the caller as it is."""

    async def play() -> None:
        async def lost(_: object) -> Any:
            raise TimeoutError("lost")

        made = AsyncJob(agenda.Job(lambda *_: {}, "x", {"id": "x"}), lost)
        await made.wait()

    with pytest.raises(TimeoutError, match="lost"):
        asyncio.run(play())


def test_the_asynchronous_client_runs_jobs_too(address: str) -> None:
    """Two of them at the same time, and one that takes too long."""

    async def play() -> list[str]:
        async with agenda.AsyncClient(address) as client:
            jobs = await asyncio.gather(*(client.run(job(f"both-{n}")) for n in range(2)))
            states = await asyncio.gather(*(one.wait(timeout_s=120) for one in jobs))
            slow = await client.run(job("slow-job", rdl=RDL.replace("+0, +20m", "+10m, +20m")))
            with pytest.raises(agenda.WaitTimeoutError):
                await slow.wait(timeout_s=0.1)
            await slow.cancel()
            assert (await (await client.job("both-0")).stages())["b"] == "completed"
            return states

    assert asyncio.run(play()) == ["succeeded", "succeeded"]


def test_a_file_that_is_no_job_is_named(tmp_path: Path) -> None:
    """Whether it is no TOML, no table, or not there."""
    (tmp_path / "bad.toml").write_text("rdl =")
    (tmp_path / "list.json").write_text("[]")
    client = agenda.Client("http://127.0.0.1:1")
    for name in ("bad.toml", "list.json", "none.toml"):
        with pytest.raises(agenda.SettingError, match=name):
            client.run(tmp_path / name)

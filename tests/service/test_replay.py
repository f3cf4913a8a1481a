"""`python -m bench.replay`: a recorded day posted again is the same day, later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.replay import Playback, Played, play, replay, report
from planner.files import WorkloadLine
from service.cli.kit.errors import DONE, ERROR
from service.cli.kit.progress import CommandProgress
from tests.service.cli.client.in_process_server import InProcessServer, let_commands_ask
from tests.service.conftest import Service

MINUTE = 60_000
LATER = 3  # minutes


#: Ten machines: the third request finds half of them taken, the last none.
DAY = (
    WorkloadLine("a", "window(atom(<1 cpu>, 5, 5, 5m, 25m), 10m, 15m)", submitted_ms=5 * MINUTE),
    WorkloadLine("b", "window(atom(<1 cpu>, 1, 5, 1m, 10m), +0m, +9m)", submitted_ms=6 * MINUTE),
    WorkloadLine("c", "window(atom(<1 cpu>, 6, 6, 5m, 30m), 10m, 20m)", submitted_ms=7 * MINUTE),
    WorkloadLine("d", "window(atom(<1 cpu>, 6, 6, 5m, 30m), 11m, 18m)", submitted_ms=7 * MINUTE),
)


def _replay(*arguments: object) -> Result:
    return CliRunner().invoke(replay, [str(one) for one in arguments], catch_exceptions=False)


def _play(service: Service, playback: Playback) -> Played:
    """Play the day; the service's clock is where the record says whenever a request is due."""
    began_ms = service.clock.at_ms

    def pause(until: float, _run: CommandProgress) -> None:
        due_s = requests[len(posted)].due_s
        service.clock.at_ms = began_ms + round(1000 * due_s)
        posted.append(until)

    requests, posted = list(playback.requests(DAY)), list[float]()
    return play(InProcessServer(service), requests, CommandProgress(), pause)


def _held(service: Service, prefix: str = "") -> dict[str, Any]:
    """Return the rows of each reservation, by id."""
    found = {}
    for one in service.client.get("/v1/reservations").get_json()["reservations"]:
        if one["state"] != "refused" and one["id"].startswith(prefix):
            found[one["id"].removeprefix(prefix)] = [atom["allocation"] for atom in one["atoms"]]
    return found


def test_a_day_posted_again_is_the_same_day_later(still: Service) -> None:
    """Every row of every reservation is by one time later, and the same requests are refused."""
    service, begin = still, still.clock.at_ms
    for line in DAY:
        service.clock.at_ms = begin + line.submitted_ms
        service.ask(line.id, line.source)
    direct = _held(service)
    assert sorted(direct) == ["a", "b", "c"]
    for id_ in direct:
        assert service.client.delete(f"/v1/reservations/{id_}").status_code == 200
    now_ms = service.clock.at_ms - begin + LATER * MINUTE
    service.clock.at_ms = begin + now_ms
    played = _play(service, Playback(now_ms, MINUTE, prefix="again-"))
    by_s = (now_ms - DAY[0].submitted_ms) // 1000
    later = {
        id_: [[[start + by_s, end + by_s, height] for start, end, height in rows] for rows in atoms]
        for id_, atoms in direct.items()
    }
    assert _held(service, "again-") == later
    assert (played.accepted, played.refused) == (["again-a", "again-b", "again-c"], 1)


@pytest.mark.parametrize("speed", [0.5, 1.0, 60.0])
def test_windows_are_the_same_at_any_speed(speed: float) -> None:
    """What is faster is only when each request is posted."""
    first, *rest = Playback(90_500, MINUTE, speed).requests(DAY)
    plain = [one.body for one in Playback(90_500, MINUTE).requests(DAY)]
    assert [first.body, *(one.body for one in rest)] == plain
    assert [one.due_s for one in rest] == [60 / speed, 120 / speed, 120 / speed]
    assert "window(atom(<1 cpu>, 5, 5, 300, 1500), 420, 720)" in plain[0]["rdl"]


def test_the_report_counts_promises_that_stand_and_those_that_broke(still: Service) -> None:
    """After an outage of most machines the gang lacks some when it is due."""
    played = _play(still, Playback(0, MINUTE))
    before = report(InProcessServer(still), played)
    assert (before["accepted"], before["kept"], before["broken"], before["violations"]) == (
        3, 3, 0, 0,
    )  # fmt: skip
    asked = {"machines": "plain", "count": 9, "end": "+3h"}
    assert still.client.post("/v1/cluster/outages", json=asked).status_code == 201
    assert report(InProcessServer(still), played)["broken"] == 0  # nothing is due yet
    still.clock.advance(15 * 60)
    after = report(InProcessServer(still), played)
    assert after["broken"] >= 1
    assert after["kept"] + after["broken"] == 3


def test_the_command_posts_a_file_and_says_how_it_was_served(
    still: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad line is reported and left out; the same again gets the same answers."""
    let_commands_ask(still, monkeypatch)
    file = tmp_path / "day.jsonl"
    lines = [json.dumps(line.to_json()) for line in DAY]
    file.write_text("\n".join([*lines, '{"id": "x"}']))
    done = _replay(file, "--speed", "1e9", "-o", "json")
    assert done.exit_code == DONE, done.output
    told = json.loads(done.stdout)
    assert (told["requests"], told["refused"], told["failed"]) == (4, 1, 0)
    assert told["latency_ms"]["max"] >= told["latency_ms"]["p50"] > 0
    assert "line 5" in done.stderr
    again = json.loads(_replay(file, "--speed", "1e9", "-o", "json").stdout)
    assert (again["accepted"], again["refused"]) == (told["accepted"], 1)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    assert _replay(empty).exit_code == ERROR

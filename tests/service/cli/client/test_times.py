"""A duration at a shell counts from now, whatever the origin of the server (D7)."""

from __future__ import annotations

import json

import pytest

from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import Service


@pytest.fixture
def later(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a server that is an hour older than its origin, which commands ask."""
    let_commands_ask(service, monkeypatch)
    service.clock.advance(3600)
    return service


@pytest.mark.parametrize("word", ["2h", "+2h"])
@pytest.mark.usefixtures("later")
def test_an_outage_of_two_hours_ends_two_hours_from_now(word: str) -> None:
    """Not two hours after the origin, which would be one hour from now."""
    added = agenda("outages", "add", "plain", "--count", 2, "--end", word, "-o", "json")
    outage = json.loads(added.stdout)["outage"]
    assert (outage["start"], outage["end"]) == (3600, 3 * 3600)


@pytest.mark.parametrize(("word", "listed"), [("30m", ["a"]), ("2h", []), ("+2h", [])])
def test_lists_begin_so_long_from_now(later: Service, word: str, listed: list[str]) -> None:
    """A reservation of the hour to come is not one of two hours from now on."""
    later.reserve("a", "window(atom(<1 cpu>, 1, 1, 30m, 30m), +0, +90m)")
    found = agenda("reservations", "list", "--from", word, "-o", "json")
    assert [one["id"] for one in json.loads(found.stdout)] == listed


@pytest.mark.parametrize(("word", "listed"), [("30m", ["late"]), ("2h", ["late", "early"])])
def test_the_audit_begins_so_long_before_now(
    service: Service, monkeypatch: pytest.MonkeyPatch, word: str, listed: list[str]
) -> None:
    let_commands_ask(service, monkeypatch)
    for id_ in ("early", "late"):
        service.reserve(id_, "window(atom(<1 cpu>, 1, 1, 30m, 30m), +0, +3h)")
        service.clock.advance(1200)
    service.clock.advance(600)
    for typed in (word, f"-{word}"):
        found = agenda("audit", "--from", typed, "--kind", "admit", "-o", "json")
        assert [one["about"] for one in json.loads(found.stdout)] == listed


@pytest.mark.usefixtures("later")
def test_the_report_begins_so_long_before_now() -> None:
    found = json.loads(agenda("report", "--from", "30m", "-o", "json").stdout)
    assert (found["from"], found["to"]) == (1800, 3600)


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/report", "/v1/reservations", "/v1/plan",
                                  "/v1/machines/lanes", "/v1/promises"])  # fmt: skip
def test_a_time_before_now_is_read_by_every_list(later: Service, path: str) -> None:
    assert later.client.get(f"{path}?from=-90m").status_code == 200
    assert later.client.get(f"{path}?from=-5x").status_code == 400
    assert later.client.get(f"{path}?from=-999999999999w").status_code == 400
    assert later.client.get(f"{path}?from=-3000w").status_code == 200

"""`agenda offers` and `agenda plan --offers`, on files; against a server in test_demo's manner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import DONE, ERROR, REFUSED, USAGE
from service.cli.kit.server import Server, ServerReply
from tests.service.cli.client.in_process_server import InProcessServer
from tests.service.cli.command_line import SECONDS, agenda, write_day
from tests.service.conftest import Service

FIRST = "window(atom(<1 cpu>,100,100,400,40000),0,400)"
SECOND = "window(atom(<1 cpu>,50,50,200,10000),100,400)"


@pytest.fixture
def day(tmp_path: Path) -> tuple[Path, Path]:
    """A cluster that is full for its first half, and a request for that time."""
    lines = [{"id": "r1", "rdl": FIRST}, {"id": "r2", "rdl": SECOND}]
    return write_day(tmp_path, SECONDS, lines)


def test_offers_from_files(day: tuple[Path, Path]) -> None:
    """A refused line of a workload is reported why, and is offered the deadline that works."""
    done = agenda("offers", "--id", "r2", "--cluster", day[0], "--workload", day[1], "-o", "json")
    assert done.exit_code == DONE, done.output
    answer = json.loads(done.stdout)
    assert (answer["accepted"], answer["refusal"]["code"]) == (False, "capacity")
    assert answer["offers"][0]["expression"] == (
        "window(atom(<1 cpu>, 50, 50, 200, 10000), 100, 600)"
    )


def test_offers_for_a_file_next_to_a_workload(day: tuple[Path, Path], tmp_path: Path) -> None:
    """RDL in a file is asked after the workload; the table has the reason and the offers."""
    asked = tmp_path / "asked.rdl"
    asked.write_text(SECOND)
    alone = agenda("offers", asked, "--cluster", day[0])
    assert (alone.exit_code, alone.stdout) == (DONE, "accepted as it is\n")
    beside = agenda("offers", asked, "--cluster", day[0], "--workload", day[1])
    assert beside.exit_code == DONE, beside.output
    assert beside.stdout.startswith(
        "refused (capacity): the request needs at least 50 cpu at once; no cpu is left at "
    )
    assert (
        "  offer 1: it would fit if the deadline were 10m from the origin, 3m20s later\n"
        "           window(atom(<1 cpu>, 50, 50, 200, 10000), 100, 600)\n"
    ) in beside.stdout


def test_refused_without_an_offer_exits_with_3(day: tuple[Path, Path], tmp_path: Path) -> None:
    """A bundle that no machine holds cannot be helped."""
    asked = tmp_path / "asked.rdl"
    asked.write_text("atom(<2 cpu>, 1, 1, 10, 10)")
    done = agenda("offers", asked, "--cluster", day[0])
    assert done.exit_code == REFUSED, done.output
    assert "refused (unsatisfiable)" in done.stdout
    assert done.stdout.endswith("size or other option was found that fits\n")


def test_what_offers_cannot_be_asked_with(day: tuple[Path, Path]) -> None:
    """No request, two requests, an id that is not there, a file of several: each is reported."""
    assert agenda("offers").exit_code == USAGE
    assert agenda("offers", day[1], "--id", "r2").exit_code == USAGE
    assert agenda("offers", day[1], "--workload", day[1]).exit_code == USAGE
    several = agenda("offers", day[1], "--cluster", day[0])
    assert (several.exit_code, "2 requests" in several.stderr) == (ERROR, True)
    unknown = agenda("offers", "--id", "r9", "--cluster", day[0], "--workload", day[1])
    assert (unknown.exit_code, "no request 'r9'" in unknown.stderr) == (ERROR, True)


def test_offers_of_a_server(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal that the server keeps is requested by its id; what is granted is not refused."""

    def call(self: Server, method: str, path: str, body: Any = None, *_: Any) -> ServerReply:
        answer = service.client.open(path, method=method, json=body)
        return ServerReply(answer.status_code, answer.get_json())

    monkeypatch.setattr(Server, "call", call)
    whole = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
    service.reserve("first", whole)
    service.ask("second", whole)
    done = agenda("offers", "--id", "second", "--most", 1, "-o", "json")
    assert done.exit_code == DONE, done.output
    (offer,) = json.loads(done.stdout)["offers"]
    service.reserve("third", offer["expression"])
    for id_, words in (("first", "is accepted, not refused"), ("none", "there is no reservation")):
        told = agenda("offers", "--id", id_)
        assert told.exit_code == ERROR
        assert words in told.stderr


def test_submit_and_show_print_offers(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever is refused sees what would be granted, at once and later."""

    def call(
        self: Server, method: str, path: str, body: Any = None, query: Any = None, *_: Any
    ) -> ServerReply:
        answer = service.client.open(path, method=method, json=body)
        return ServerReply(answer.status_code, answer.get_json())

    monkeypatch.setattr(Server, "call", call)
    monkeypatch.setattr(Server, "once", lambda self, path, body, *_: call(self, "POST", path, body))
    asked = tmp_path / "asked.rdl"
    asked.write_text("window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)")
    assert agenda("submit", asked, "--id", "first").exit_code == DONE
    refused = agenda("submit", asked, "--id", "second")
    assert refused.exit_code == REFUSED
    told = "  offer 1: it would fit if the deadline were Mon 2026-01-05 02:00 (UTC)\n"
    assert told in refused.stderr
    assert told in agenda("reservations", "show", "second").stdout


def test_plan_puts_offers_in_the_plan_file(day: tuple[Path, Path], tmp_path: Path) -> None:
    """Few refusals have offers without being asked for; 0 leaves them out; all is valid."""
    out = tmp_path / "plan.json"
    for option, most in (((), 3), (("--offers", 1), 1), (("--offers", 0), 0)):
        done = agenda("plan", *day, "--agent", "gree", "--out", out, *option)
        assert done.exit_code == DONE, done.output
        plan = json.loads(out.read_text())
        (refusal,) = plan["refusals"]
        assert min(1, most) <= len(refusal["offers"]) <= most
        assert all(offer["at_version"] == plan["version"] for offer in refusal["offers"])
        assert agenda("validate", out, "--workload", day[1]).exit_code == DONE


def test_many_refusals_have_offers_only_when_asked(day: tuple[Path, Path], tmp_path: Path) -> None:
    """Above twenty refusals the search is left out unless it is requested."""
    lines = [{"id": f"r{i}", "rdl": FIRST} for i in range(22)]
    day[1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    counts = []
    for option in ((), ("--offers", 1)):
        done = agenda("plan", *day, *option, "-o", "json")
        refusals = json.loads(done.stdout)["refusals"]
        counts.append((len(refusals), sum(len(one["offers"]) for one in refusals)))
    assert counts == [(21, 0), (21, 21)]


def test_what_cannot_be_compiled_is_offered_time(day: tuple[Path, Path]) -> None:
    """A line that is unsatisfiable as it is has offers in the plan file; malformed has none."""
    lines = [
        {"id": "short", "rdl": "window(atom(<1 cpu>,1,1,100,100),0,50)"},
        {"id": "bad", "rdl": "window(atom(<1 cpu>,2,1,100,100),0,50)"},
    ]
    day[1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = json.loads(agenda("plan", *day, "-o", "json").stdout)
    offers = {one["id"]: one["offers"] for one in plan["refusals"]}
    assert offers["short"][0]["expression"] == "window(atom(<1 cpu>, 1, 1, 100, 100), 0, 100)"
    assert offers["bad"] == []


def _answering(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line ask the service of the test."""
    ask = InProcessServer(service).call
    monkeypatch.setattr(Server, "call", lambda _, *given, **named: ask(*given, **named))
    monkeypatch.setattr(
        Server, "once", lambda _, path, body, query=None, key=None: ask("POST", path, body, query)
    )


def test_submit_offers_what_offers_offers(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Work that is longer than its window: no plan could, a later deadline can (D16)."""
    _answering(service, monkeypatch)
    asked = tmp_path / "imp.rdl"
    asked.write_text("window(atom(<1 cpu>, 1, 1, 150m, 150m), +0, +1h)")
    offered = json.loads(agenda("offers", asked, "-o", "json").stdout)["offers"]
    refused = agenda("submit", asked, "--id", "imp", "-o", "json")
    assert refused.exit_code == REFUSED, refused.output
    body = json.loads(refused.stdout)
    assert body["code"] == "unsatisfiable"
    assert [one["expression"] for one in body["offers"]] == [one["expression"] for one in offered]
    assert offered
    assert "offer 1: " in agenda("submit", asked, "--id", "imp").stderr
    taken = agenda("submit", asked, "--id", "imp", "--take", 1, "-o", "json")
    assert taken.exit_code == DONE, taken.output
    assert json.loads(taken.stdout)["id"] == "imp"


def test_show_offers_what_holds_now(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offer whose time has passed is not shown: it is looked for again (D14)."""
    _answering(service, monkeypatch)
    service.reserve("first", "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)")
    service.ask("second", "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)")
    kept = json.loads(agenda("reservations", "show", "second", "-o", "json").stdout)["offers"]
    assert kept
    service.clock.advance(2 * 3600)
    now = service.client.get("/v1/plan").get_json()
    later = json.loads(agenda("reservations", "show", "second", "-o", "json").stdout)
    assert later["offers"] != kept
    for offer in later["offers"]:
        assert (
            service.client.post(
                "/v1/reservations?dry_run=true", json=offer["request"] | {"id": "trial"}
            ).status_code
            == 200
        ), (now, offer)

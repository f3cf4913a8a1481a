"""A request as it was submitted, to the letter, with its canonical form alongside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rdl.codecs.json_codec import to_json
from rdl.text.parser import parse
from service.cli.kit.errors import DONE
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import Open, Service

SUBMITTED = """\
# nightly index \N{EN DASH} ask ads first
gang = atom( <1 cpu,1GiB memory> , 2,2,  1m, 2m );\r
window(gang,\t1m, 10m)   # by \x1b[31mten\0
"""
CANONICAL = "window(gang: atom(<1 cpu, 1 GiB memory>, 2, 2, 60, 120), 60, 600)"
YARN = {
    "arrival": 1_767_571_260_000,
    "deadline": 1_767_571_800_000,
    "reservation-requests": {
        "reservation-request-interpreter": 1,
        "reservation-request": [
            {
                "duration": 60_000,
                "num-containers": 2,
                "min-concurrency": 2,
                "capability": {"memory": 1024, "vCores": 1},
            }
        ],
    },
}


def _told(body: Any) -> tuple[str, str | None]:
    return body["expression"], body.get("written")


def _shown(service: Service, id_: str = "r") -> tuple[str, str | None]:
    return _told(service.client.get(f"/v1/reservations/{id_}").get_json())


def test_a_text_is_shown_as_submitted_after_a_restart_too(open_service: Open) -> None:
    """Comments, definitions and spacing stay; the canonical form is shown next to."""
    first = open_service(tick_s=0)
    assert _told(first.reserve("r", SUBMITTED)) == (CANONICAL, SUBMITTED)
    assert _shown(first) == (CANONICAL, SUBMITTED)
    (listed,) = first.client.get("/v1/reservations").get_json()["reservations"]
    assert _told(listed) == (CANONICAL, SUBMITTED)
    (exported,) = first.client.get("/v1/plan/export").get_json()["reservations"]
    assert _told(exported) == (CANONICAL, SUBMITTED)
    for same in (SUBMITTED, CANONICAL):
        assert first.ask("r", same).status_code == 200, "it asks for the same"
    first.runtime.close()
    assert _shown(open_service(tick_s=0)) == (CANONICAL, SUBMITTED)


def test_nothing_is_kept_alongside_what_is_canonical_or_json(service: Service) -> None:
    """The canonical text has no second form, nor has JSON, be it an object or a text."""
    as_json = to_json(parse(CANONICAL))
    for number, source in enumerate((CANONICAL, as_json, json.dumps(as_json), YARN)):
        body = service.reserve(f"r{number}", source)
        assert body.get("written") is None
        assert _shown(service, f"r{number}")[1] is None


def test_what_was_added_does_not_change_what_was_submitted(still: Service) -> None:
    """Memory is added to what is planned; the text is shown without, and known again without."""
    text = "window(atom(<1 cpu>,2,2,1m,2m), 1m, 10m) # bare"
    expression, written = _told(still.reserve("r", text))
    assert (written, "memory" in expression) == (text, True)
    assert still.ask("r", text.replace(" # bare", "")).status_code == 200


def test_a_change_is_shown_as_submitted(service: Service) -> None:
    """It takes the place of the text before; a canonical one leaves none."""
    service.reserve("r", SUBMITTED)
    wider = SUBMITTED.replace("1m, 10m)", "1m, 20m)")
    for text, kept in ((wider, wider), (CANONICAL, None)):
        changed = service.client.put(
            "/v1/reservations/r", json={"rdl": text}, headers={"If-Match": "*"}
        ).get_json()
        assert changed.get("written") == kept
        assert _shown(service)[1] == kept


def test_a_refusal_shows_what_was_submitted(service: Service) -> None:
    """Of a batch too, where each has its own."""
    full = SUBMITTED.replace("2,2,  1m, 2m", "90,90, 1m, 90m")
    batch = [{"id": "r", "rdl": SUBMITTED}, {"id": "no", "rdl": full}]
    service.client.post("/v1/reservations:batch", json=batch)
    assert (_shown(service)[1], _shown(service, "no")[1]) == (SUBMITTED, full)


def test_the_command_shows_both_forms(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines and tabs as submitted; what would steer the terminal is spelled out."""
    let_commands_ask(service, monkeypatch)
    service.reserve("r", SUBMITTED)
    shown = agenda("reservations", "show", "r")
    assert shown.exit_code == DONE
    steady = SUBMITTED.replace("\r\n", "\n").replace("\x1b", "\\x1b").replace("\0", "\\x00")
    assert f"\n{steady}\ncanonical: {CANONICAL}\n" in shown.stdout
    told = json.loads(agenda("reservations", "show", "r", "-o", "json").stdout)
    assert _told(told) == (CANONICAL, SUBMITTED)

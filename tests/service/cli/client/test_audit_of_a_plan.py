"""`agenda validate --audit`: the independent judge on what a server has committed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.cli.kit.errors import DONE, ERROR, USAGE
from service.resources.plan import exported_plan
from tests.service.cli.command_line import agenda
from tests.service.client.stand_in import FixedAnswer, answering
from tests.service.conftest import Service


def _live(service: Service) -> dict[str, Any]:
    """Return what the server exports: two reservations, one of them cancelled, and a refusal."""
    service.reserve("stays")
    service.reserve("gone")
    assert service.client.delete("/v1/reservations/gone").status_code == 200
    assert service.ask("wide", "atom(<1 cpu>, 99, 99, 60, 5940)").status_code >= 400
    document: dict[str, Any] = json.loads(exported_plan(service.runtime).to_text())
    return document


def _audit(document: object, *more: str) -> Any:
    with answering(FixedAnswer(body=json.dumps(document).encode())) as (url, _):
        return agenda("validate", "--audit", "--server", url, *more)


def test_what_a_server_has_committed_is_valid(service: Service) -> None:
    """Two reservations and a refusal, after a cancellation."""
    done = _audit(_live(service))
    assert (done.exit_code, done.stdout) == (DONE, "valid: 2 reservations, 1 refusal\n")


def test_a_claim_past_the_capacity_is_found(service: Service) -> None:
    """A row that holds a thousand bundles is named with its rule; the exit code is 1."""
    document = _live(service)
    (held,) = (one for one in document["reservations"] if one["id"] == "stays")
    held["atoms"][0]["allocation"][0][2] = 1000
    told = json.loads(_audit(document, "-o", "json").stdout)
    assert not told["valid"]
    assert {"capacity", "oracle"} & {one["rule"] for one in told["violations"]}
    assert _audit(document).exit_code == ERROR


@pytest.mark.parametrize("answer", [[], {}, {"status": "ok"}], ids=["list", "empty", "other"])
def test_an_answer_that_is_no_plan_is_refused(answer: object) -> None:
    """In one line, with the server's address."""
    done = _audit(answer)
    assert done.exit_code == ERROR
    assert "Agenda server" in done.stderr


@pytest.mark.parametrize("words", [[], ["--audit", __file__]], ids=["neither", "both"])
def test_a_file_or_a_server_is_checked_and_not_both(words: list[str]) -> None:
    """Exit code 2, with what would be right."""
    done = agenda("validate", *words)
    assert done.exit_code == USAGE
    assert "--audit for the Plan of a server" in done.stderr

"""The log: JSON lines, ids of requests, one line an admission, and no secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.logs import ADMISSIONS, REQUEST_ID, AwayLines, JsonLines, redact
from service.store.engine import UnavailableError
from tests.end_to_end.server_process import Client, serving
from tests.service.conftest import CLUSTER, Service


class _Kept(logging.Handler):
    """Keeps the lines that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """Return the lines that admissions write from now on."""
    handler, level = _Kept(), ADMISSIONS.level
    ADMISSIONS.addHandler(handler)
    ADMISSIONS.setLevel(logging.INFO)
    yield handler.lines
    ADMISSIONS.removeHandler(handler)
    ADMISSIONS.setLevel(level)


class TestAdmissions:
    def test_one_line_an_admission(self, still: Service, lines: list[dict[str, Any]]) -> None:
        """Its id, tenant, outcome, code, agent, time, version, and the id of its request."""
        body = still.reserve("a", tenant="ads", headers={"X-Request-Id": "mine-1"})
        still.ask("b", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)")
        still.ask("c", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)")

        told = {line["id"]: line for line in lines}
        assert list(told) == ["a", "b", "c"]
        assert told["a"] | {"outcome": "accepted", "code": None} == told["a"]
        assert (told["a"]["tenant"], told["a"]["agent"]) == ("ads", "gree")
        assert (told["a"]["version"], told["a"]["request_id"]) == (body["version"], "mine-1")
        assert told["a"]["ms"] > 0
        assert (told["c"]["outcome"], told["c"]["code"]) == ("refused", "capacity")

    def test_a_batch_has_a_line_for_each(self, still: Service, lines: list[dict[str, Any]]) -> None:
        """And what is no admission has none."""
        rdl = "atom(<1 cpu>, 1, 10, 60, 600)"
        batch = [{"id": f"r{i}", "rdl": rdl} for i in range(3)]
        still.client.post("/v1/reservations:batch", json=batch)
        still.client.delete("/v1/reservations/r0")
        still.client.post("/v1/reservations?dry_run=true", json={"rdl": rdl})

        assert [line["id"] for line in lines] == ["r0", "r1", "r2"]
        assert len({line["request_id"] for line in lines}) == 1


class TestRequestIds:
    @pytest.mark.parametrize(
        ("given", "kept"),
        [("abc-1.2:3", True), ("", False), ("a b", False), ("x" * 129, False), ("é", False)],
    )
    def test_the_clients_id_comes_back(self, still: Service, given: str, kept: bool) -> None:
        """Where it is a plain word; else there is a new one."""
        answer = still.client.get("/healthz", headers={"X-Request-Id": given})

        assert (answer.headers["X-Request-Id"] == given) == kept
        assert answer.headers["X-Request-Id"]

    def test_every_answer_has_its_own(self, still: Service) -> None:
        """Calls of both ways through the application, failures too."""
        answers = [
            still.client.post("/v1/rdl/check", json={"rdl": "x"}),
            still.client.post("/v1/rdl/check", data="x"),
            still.client.get("/v1/plan"),
            still.client.get("/nowhere"),
            still.client.get("/healthz", headers={"Host": "elsewhere.example"}),
        ]

        ids = [answer.headers["X-Request-Id"] for answer in answers]
        assert len(set(ids)) == len(ids)


class TestSecrets:
    @pytest.mark.parametrize(
        "text",
        [
            "cannot open postgresql+psycopg://agenda:hunter2@host/db",
            "Authorization: Bearer hunter2hunter2",
            "password=hunter2 host=db",
            'AGENDA_TOKEN="hunter2"',
            "{'token': 'hunter2'}",
            "https://alice:hunter2@host/",
            "postgresql://alice:p@hunter2@host/db",
            "host=x password='not hunter2' user=y",
            "GET /v1/calendar.ics?token=hunter2 200",
            "it is whsec_hunter2hunter2==",
            f"it is agenda_hunter2-{'Ab_' * 11}xy",
        ],
    )
    def test_what_looks_like_one_is_not_shown(self, text: str) -> None:
        """Passwords of URLs, tokens of headers, settings of such names."""
        assert "hunter2" not in redact(text)

    def test_other_texts_stay(self) -> None:
        """Ids, times and addresses are not secrets."""
        text = (
            "2026-01-05T10:00:00Z r-1f at http://127.0.0.1:8080/v1 of alice@host: 5 tokens left; "
        )
        text += "agenda_reservation_below_seconds_bucket of agenda_http_seconds"
        assert redact(text) == text

    def test_a_line_with_an_exception_is_redacted(self) -> None:
        """Message and exception."""
        try:
            raise OSError("connect to postgresql://a:hunter2@h/d")
        except OSError as error:
            info = (type(error), error, error.__traceback__)
        record = logging.LogRecord(
            "agenda.service", logging.ERROR, "", 1, "%s failed", ("password=hunter2",), info
        )

        line = JsonLines().format(record)

        assert "hunter2" not in line
        assert "OSError" in json.loads(line)["exception"]


def test_a_database_that_is_unavailable_is_said_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each thing that waits says so at first and after 30 s; what a call met is always said."""
    now = [100.0]
    monkeypatch.setattr("service.logs.time.monotonic", lambda: now[0])
    written: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: written.append(record.getMessage()))
    handler.addFilter(AwayLines())
    logger = logging.Logger("alone")
    logger.addHandler(handler)

    def say(text: str, error: Exception) -> None:
        logger.error(text, exc_info=error)

    away = UnavailableError("connection refused")
    for _ in range(3):
        say("holds wait", away)
    say("ticks wait", away)
    for _ in range(2):
        say("a fault of ours", ValueError("x"))
    assert written == ["holds wait", "ticks wait", "a fault of ours", "a fault of ours"]

    now[0] += 31
    say("holds wait", away)
    assert written[4:] == ["holds wait (2 times more since)"]
    request = REQUEST_ID.set("r-1")
    say("holds wait", away)
    REQUEST_ID.reset(request)
    assert written[5:] == ["holds wait"]


def test_every_line_of_a_server_is_json(tmp_path: Path) -> None:
    """Those of gunicorn too; an admission has its request's id, and is in the log once."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    with serving(tmp_path / "a.db", cluster, log_format="json") as server:
        body = {"id": "a", "rdl": "atom(<1 cpu>, 1, 10, 60, 600)"}
        given = {"X-Request-Id": "mine-2"}
        assert Client(server.port).call("POST", "/v1/reservations", body, given)[0] == 201

    lines = [json.loads(line) for line in cluster.with_suffix(".log").read_text().splitlines()]

    assert any("Listening at" in line["message"] for line in lines)
    (admission,) = [line for line in lines if line["message"] == "admission"]
    assert (admission["id"], admission["request_id"]) == ("a", "mine-2")

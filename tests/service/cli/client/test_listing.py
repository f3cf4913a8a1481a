"""Lists that the client prints: every page is fetched, and every form says what there is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from service.cli.kit.output import CSV, JSON, TABLE, print_listing
from service.cli.kit.server import Server, ServerReply
from tests.service.cli.command_line import agenda

NUMBERS = [{"n": number} for number in range(2500)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Stand in for a server that holds 2,500 entries; returns the queries it gets."""
    queries: list[dict[str, object]] = []

    def call(
        _self: Server, _method: str, _path: str, *, query: Mapping[str, object]
    ) -> ServerReply:
        queries.append(dict(query))
        first = int(str(query["cursor"] or 0))
        last = first + int(str(query["limit"]))
        rest = str(last) if last < len(NUMBERS) else None
        return ServerReply(200, {"numbers": NUMBERS[first:last], "next": rest})

    monkeypatch.setattr(Server, "call", call)
    return queries


@pytest.mark.parametrize(("limit", "pages"), [(None, 3), (2500, 3), (1200, 2), (1000, 1), (3, 1)])
def test_pages_are_fetched_up_to_the_limit(
    limit: int | None, pages: int, asked: list[dict[str, object]]
) -> None:
    """A list is what all pages hold, in order, cut at the limit; no page more than needed."""
    found = Server().list_all("/numbers", "numbers", {"tenant": "a"}, limit)
    assert found == NUMBERS[:limit]
    assert len(asked) == pages
    assert {query["tenant"] for query in asked} == {"a"}


@pytest.mark.parametrize(
    ("form", "nothing", "text"),
    [
        (TABLE, "no numbers", "no numbers\n"),
        (TABLE, None, "n\n"),
        (CSV, "no numbers", "n\n"),
        (JSON, "no numbers", "[]\n"),
    ],
)
def test_an_empty_list_keeps_its_form(
    form: str, nothing: str | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs get a header or an empty document; only a table may be a sentence."""
    print_listing([], ("n",), [], form, nothing)
    assert capsys.readouterr().out == text


_WHEN = "2026-11-29T07:00:00Z"
_CHANGE = {
    "number": 1, "at": _WHEN, "user": "ada", "address": "127.0.0.1", "call": "POST /v1/outages",
    "kind": "admit", "tenant": "a", "about": "r", "detail": "", "version": 1,
}  # fmt: skip
_FAILURE = {
    "event": 1, "kind": "admit", "state": "dead", "attempts": 9, "error": "500", "at": _WHEN,
}  # fmt: skip
_HOOK = {
    "id": "w", "url": "http://127.0.0.1:1/", "kinds": ["admit"], "tenant": None, "stopped": None,
    "deliveries": {"waiting": 0, "delivered": 0, "dead": 1}, "failures": [_FAILURE],
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "body"),
    [(("audit",), {"changes": [_CHANGE], "next": None}), (("webhook", "show", "w"), _HOOK)],
)
def test_instants_are_reported_by_the_clock_of_the_cluster(
    words: tuple[str, ...], body: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in every list: in its zone on a table, in UTC where programs read."""
    monkeypatch.setattr(Server, "call", lambda *_, **__: ServerReply(200, dict(body)))
    monkeypatch.setattr(Server, "zone", lambda _: "Europe/Berlin")
    shown, read = agenda(*words), agenda(*words, "-o", "json")
    assert "08:00" in shown.stdout
    assert "Europe/Berlin" in shown.stdout
    assert _WHEN in read.stdout

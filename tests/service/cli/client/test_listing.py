"""Lists that the client prints: every page is fetched, and every form says what there is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from service.cli.client.server import Server, ServerReply
from service.cli.terminal.output import CSV, JSON, TABLE, print_listing

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

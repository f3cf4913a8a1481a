"""`agenda dispatch policy` and what `agenda apps list` says of those that wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from service.cli.kit.errors import CONFLICT, DONE, ERROR, USAGE
from service.cli.kit.server import Server, ServerReply
from tests.service.applying import an_application, submit_one
from tests.service.cli.command_line import agenda
from tests.service.conftest import Service


@pytest.fixture
def changes() -> list[Callable[[], object]]:
    """Return what others do between the two calls of a command."""
    return []


@pytest.fixture
def served(
    still: Service, changes: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> Service:
    """Let commands call a service of this process."""

    def call(
        _self: Server,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerReply:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        answer = still.client.open(
            path, method=method, json=body, query_string=given, headers=dict(headers or {})
        )
        if method == "GET":
            for meanwhile in changes:
                meanwhile()
        return ServerReply(answer.status_code, answer.get_json(), answer.headers.get("ETag"))

    monkeypatch.setattr(Server, "call", call)
    return still


@pytest.mark.usefixtures("served")
def test_the_policy_is_shown_as_the_file_has_it() -> None:
    """A row a word, true and false as in TOML; JSON is the API's."""
    first, _, *lines = agenda("dispatch", "policy").stdout.splitlines()
    assert first == "dispatch policy: how work is served"
    assert [line.split() for line in lines[:3]] == [
        ["word", "value"],
        ["order", "fifo"],
        ["by_priority", "true"],
    ]
    shown = json.loads(agenda("dispatch", "policy", "-o", "json").stdout)
    assert (shown["placement"], shown["tables"]) == ("lotes", True)


@pytest.mark.usefixtures("served")
def test_options_change_the_words_they_name_and_no_others() -> None:
    """Shares bring their own word on preemption; the change before stays."""
    assert agenda("dispatch", "policy", "--no-tables", "--placement", "spread").exit_code == DONE
    changed = agenda("dispatch", "policy", "--order", "drf", "-o", "json")
    assert changed.exit_code == DONE, changed.output
    shown = json.loads(changed.stdout)
    assert (shown["order"], shown["preempt"]) == ("drf", False)
    assert (shown["placement"], shown["tables"]) == ("spread", False)
    assert json.loads(agenda("dispatch", "policy", "-o", "json").stdout) == shown


@pytest.mark.usefixtures("served")
def test_words_that_do_not_go_together_are_reported() -> None:
    """An unknown order is a usage error; a conflict is the server's message with its fix."""
    assert agenda("dispatch", "policy", "--order", "lifo").exit_code == USAGE
    refused = agenda("dispatch", "policy", "--order", "drf", "--preempt")
    assert refused.exit_code == ERROR
    assert "write false, or leave it out" in refused.stderr


def test_a_change_that_another_user_has_overtaken_fails(
    served: Service, changes: list[Callable[[], object]]
) -> None:
    """The words that were not named would be the earlier ones; nothing is changed."""
    path = "/v1/dispatch/policy"
    changes.append(lambda: served.client.put(path, json={"order": "sjf"}))
    refused = agenda("dispatch", "policy", "--no-tables")
    assert refused.exit_code == CONFLICT
    assert "has changed since" in refused.stderr
    shown = served.client.get(path).get_json()
    assert (shown["order"], shown["tables"]) == ("sjf", True)


def test_a_list_says_why_an_application_waits(served: Service) -> None:
    """The last column of table and CSV."""
    for id_ in ("a", "b"):
        submit_one(served, id_, an_application(10))
    served.runtime.dispatcher.tick()
    listed = agenda("apps", "list", "-o", "csv").stdout.splitlines()
    assert [line.rsplit(",", 1)[-1] for line in listed] == [
        "reason", "", "it waits in the line for capacity",
    ]  # fmt: skip
    assert "it waits in the line for capacity" in agenda("apps", "list").stdout

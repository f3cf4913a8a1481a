"""What the client library says of servers that are not Agenda's, and of proxies before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import agenda
from tests.service.client.stand_in import FixedAnswer, answering

RDL = "window(atom(<1 cpu>, 1, 1, 60, 60), +10m, +30m)"
ONCE = agenda.Retries(())

HTML = FixedAnswer(body=b"<html>hi\n\n</html>", headers={"Content-Type": "text/html"})
OTHER_JSON = FixedAnswer(body=b'{"hello": 1}', headers={"Content-Type": "application/json"})
ODD_EVENT = FixedAnswer(
    body=b"id: 1\ndata: \xff{\n\n", headers={"Content-Type": "text/event-stream"}
)

CALLS: list[Callable[[agenda.Client], object]] = [
    lambda client: client.submit(RDL),
    lambda client: client.submit_batch([{"rdl": RDL}]),
    lambda client: client.get("a"),
    lambda client: list(client.list()),
    lambda client: client.update("a", RDL),
    lambda client: client.cancel("a"),
    lambda client: client.offers(RDL),
    lambda client: client.hold(RDL),
    lambda client: client.holds(),
    lambda client: next(client.watch(timeout_s=5)),
    lambda client: client.wait("a", timeout_s=5),
]


@pytest.mark.parametrize("answer", [HTML, OTHER_JSON], ids=["html", "json"])
@pytest.mark.parametrize("call", CALLS)
def test_the_answer_of_another_server_is_an_error_of_the_library(
    call: Callable[[agenda.Client], object], answer: FixedAnswer
) -> None:
    """Neither a KeyError nor an endless watch comes of a URL that is wrong."""
    with answering(answer) as (url, _), pytest.raises(agenda.ForeignAnswerError):
        call(agenda.Client(url, retries=ONCE))


def test_events_that_cannot_be_read_are_an_error_of_the_library() -> None:
    """What is no JSON raises no ValueError."""
    with answering(ODD_EVENT) as (url, _), pytest.raises(agenda.ForeignAnswerError):
        next(agenda.Client(url).watch(timeout_s=5))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_change_is_not_sent_on(status: int) -> None:
    """A redirected change tells where to, rather than come out as a read that succeeds."""
    with answering(OTHER_JSON) as (there, seen):
        sent_on = FixedAnswer(status, headers={"Location": f"{there}/v1/reservations"})
        with answering(sent_on) as (url, _):
            client = agenda.Client(url, retries=ONCE)
            for call in (client.submit, lambda rdl: client.update("a", rdl), client.cancel):
                with pytest.raises(agenda.ForeignAnswerError, match="redirects to http"):
                    call(RDL)
    assert not seen


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_without_its_server_is_waited_for(status: int) -> None:
    """Its page in HTML is a server that is unavailable for now, where sending again is harmless."""
    page = FixedAnswer(status, b"<html>no</html>", {"Content-Type": "text/html"})
    with answering(page) as (url, methods):
        client = agenda.Client(url, retries=agenda.Retries((0.0, 0.0)))
        with pytest.raises(agenda.ServerFaultError, match=str(status)):
            client.submit(RDL)
        with pytest.raises(agenda.ServerFaultError):
            client.cancel("a")
    assert methods == ["POST"] * 3 + ["DELETE"]


@pytest.mark.parametrize(
    ("status", "error"), [(429, agenda.RateLimitError), (503, agenda.ServerFaultError)]
)
def test_a_watch_that_is_turned_away_raises_what_a_call_does(
    status: int, error: type[agenda.ProblemError]
) -> None:
    """The exceptions of docs/client.md hold for streams."""
    full = FixedAnswer(
        status, b'{"code": "full", "title": "Full"}', {"Content-Type": "application/problem+json"}
    )
    with answering(full) as (url, _), pytest.raises(error):
        next(agenda.Client(url).watch(timeout_s=5))

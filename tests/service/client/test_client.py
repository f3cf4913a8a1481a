"""The client library against a real server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import agenda
from agenda.connection import Reply
from agenda.retries import Repeatable

SMALL = "window(atom(<1 cpu>, 1, 1, 60, 60), +10m, +30m)"
SHORT = "window(atom(<1 cpu>, 1, 1, 1, 1), +0, +10m)"
WIDE = "window(atom(<1 cpu>, 10, 10, 29m, 290m), +0, +30m)"


@pytest.fixture
def client(address: str) -> agenda.Client:
    """Return a client of the server."""
    return agenda.Client(address)


def test_a_reservation_is_requested_found_changed_and_given_up(client: agenda.Client) -> None:
    """The whole life of one, with its revisions and times."""
    made = client.submit(SMALL, id="life", tenant="ads")
    assert (made.state, made.tenant, made.revision) == ("accepted", "ads", 1)
    found = client.get("life")
    assert found.begin is not None
    assert found.finish == found.begin + timedelta(minutes=1)
    assert "life" in [one.id for one in client.list(agenda.ListFilter(tenant="ads"))]
    later = datetime.now(UTC) + timedelta(minutes=50)
    assert "life" not in [one.id for one in client.list(agenda.ListFilter(start=later))]

    changed = client.update("life", SMALL.replace("60)", "120)"), revision=1)
    assert (changed.revision, "120" in changed.expression) == (2, True)
    with pytest.raises(agenda.StaleRevisionError):
        client.update("life", SMALL, revision=1)
    assert client.cancel("life", revision=2).state == "cancelled"
    with pytest.raises(agenda.StateConflictError) as caught:
        client.cancel("life")
    assert caught.value.code == "wrong_state"


def test_a_key_makes_the_same_submission_one_reservation(client: agenda.Client) -> None:
    """Sent again under its key it is the one that stands; another request under it is an error."""
    first, again = (client.submit(SMALL, key="once-and-no-more") for _ in range(2))
    assert first.id == again.id
    with pytest.raises(agenda.ProblemError) as caught:
        client.submit(SHORT, key="once-and-no-more")
    assert caught.value.code == "idempotency_mismatch"
    client.cancel(first.id)


def test_a_refusal_has_its_code_and_offers_that_are_accepted(client: agenda.Client) -> None:
    """What has no place raises, and what is offered instead is accepted one call."""
    held = client.submit(SMALL, id="in-the-way")
    with pytest.raises(agenda.RefusedError) as caught:
        client.submit(WIDE, id="wide")
    assert (caught.value.status, caught.value.code) == (409, "capacity")
    offer = caught.value.offers[0]
    asked = client.offers(WIDE)
    assert (asked.accepted, bool(asked.offers)) == (False, True)
    taken = client.accept(offer)
    assert (taken.id, taken.state in ("accepted", "active")) == ("wide", True)
    for one in (taken, held):
        client.cancel(one.id)


def test_errors_are_distinguished(client: agenda.Client, address: str) -> None:
    """Each kind of no has a class, a code and a sentence."""
    with pytest.raises(agenda.NotFoundError, match="never"):
        client.get("never")
    with pytest.raises(agenda.MalformedRequestError) as caught:
        client.submit("window(atm(<1 cpu>), 0, 1)")
    assert caught.value.errors[0]["span"]
    with pytest.raises(agenda.ServerAwayError):
        agenda.Client("http://127.0.0.1:9", retries=agenda.Retries(())).get("x")
    with pytest.raises(agenda.SettingError, match="not a server's URL"):
        agenda.Client("localhost:8080")
    assert isinstance(agenda.Client(address), agenda.Client)


def test_many_are_requested_at_once(client: agenda.Client) -> None:
    """Each of a batch is on its own; an atomic one is admitted or refused as a whole."""
    good, bad = client.submit_batch([{"id": "b1", "rdl": SMALL}, {"id": "b2", "rdl": "no"}])
    assert isinstance(good, agenda.Reservation)
    assert isinstance(bad, agenda.MalformedRequestError)
    both = client.submit_batch(
        [{"id": "b3", "rdl": SMALL}, {"id": "b4", "rdl": SMALL}], atomic=True
    )
    assert [one.id for one in both if isinstance(one, agenda.Reservation)] == ["b3", "b4"]
    for id_ in ("b1", "b3", "b4"):
        client.cancel(id_)


def test_capacity_is_held_and_kept_or_released(client: agenda.Client) -> None:
    """A hold is listed until it is accepted or released."""
    kept, given = client.hold(SMALL, id="h1", time_s=30), client.hold(SMALL, id="h2")
    assert {"h1", "h2"} <= {one.id for one in client.holds()}
    assert kept.until > datetime.now(UTC)
    assert client.accept_hold("h1").state == "accepted"
    assert client.release_hold("h2").state == "cancelled"
    assert given.reservation is not None
    client.cancel("h1")


def test_waiting_ends_with_the_reservation(client: agenda.Client) -> None:
    """Who waits is reported when it has begun and when it is over, and when it took too long."""
    client.submit(SHORT, id="short")
    assert client.wait("short", "begun", timeout_s=60).state in ("active", "completed")
    assert client.wait("short", timeout_s=60).state == "completed"
    client.submit(SMALL, id="long")
    with pytest.raises(agenda.WaitTimeoutError):
        client.wait("long", "begun", timeout_s=0.2)
    client.cancel("long")


def test_events_come_in_order_and_again_behind_an_id(client: agenda.Client) -> None:
    """What happened after an event is told to who names it."""
    kinds = ("accepted", "cancelled")
    events = client.watch(reservation="seen", kinds=kinds, timeout_s=60)
    start = next(events)
    client.submit(SMALL, id="seen")
    client.cancel("seen")
    told = [next(events) for _ in range(2)]
    assert (start.kind, *(one.kind for one in told)) == ("start", *kinds)
    version = str(start.data["version"])
    again = client.watch(reservation="seen", kinds=kinds, after=version, timeout_s=60)
    assert [next(again).id for _ in range(3)][1:] == [one.id for one in told]
    behind = client.watch(reservation="seen", kinds=kinds, after=told[0].id, timeout_s=60)
    assert [next(behind).kind for _ in range(2)] == ["start", "cancelled"]


def test_the_same_is_awaited(address: str) -> None:
    """AsyncClient does what Client does, and a watch that is left leaves no thread behind."""

    async def life() -> None:
        async with agenda.AsyncClient(address) as client:
            made, seen = await asyncio.gather(
                client.submit(SHORT, id="async"), client.submit(SMALL, id="async-late")
            )
            assert (made.id, seen.state) == ("async", "accepted")
            assert (await client.wait("async", timeout_s=60)).state == "completed"
            listed = await client.list()
            assert {"async", "async-late"} <= {one.id for one in listed}
            with pytest.raises(agenda.RefusedError):
                await client.submit(WIDE)
            watching = client.watch()
            assert (await anext(watching)).kind == "start"
            waiting = asyncio.create_task(client.wait("async-late", "begun"))
            await asyncio.sleep(0.2)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await watching.aclose()
            await client.cancel("async-late")

    asyncio.run(life())
    ours = [one for one in threading.enumerate() if one.name.startswith("agenda")]
    for thread in ours:
        thread.join(300)
    assert not [one for one in ours if one.is_alive()]


def test_what_may_be_sent_again_is(client: agenda.Client) -> None:
    """429 and 503 are waited out as the server asks; a change that may have been made is not
    sent again."""
    pauses: list[float] = []
    retries = agenda.Retries((1.0, 1.0), jitter=0.0, pause=pauses.append)
    answers = [Reply(503, None, retry_after=3.0), Reply(429, None), Reply(200, {})]
    assert retries.answer(lambda: answers.pop(0), Repeatable.HARMLESS).ok
    assert pauses == [3.0, 1.0]
    assert retries.answer(lambda: Reply(503, None), Repeatable.UNKNOWN).status == 503
    assert pauses == [3.0, 1.0]

    def lost() -> Reply:
        raise agenda.ServerAwayError("gone", sent=True)

    with pytest.raises(agenda.ServerAwayError):
        retries.answer(lost, Repeatable.UNKNOWN)
    assert pauses == [3.0, 1.0]
    with pytest.raises(agenda.ServerAwayError):
        retries.answer(lost, Repeatable.HARMLESS)
    assert pauses == [3.0, 1.0, 1.0, 1.0]
    assert client.url.startswith("http://127")


def test_nothing_is_sent_again_after_all_the_time_there_is() -> None:
    """However long a server asks to wait, and however many pauses are left."""
    now_s = 0.0

    def pause(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    retries = agenda.Retries(
        (1.0,) * 50, jitter=0.0, within_s=90.0, pause=pause, clock=lambda: now_s
    )
    answer = retries.answer(lambda: Reply(503, None, retry_after=40.0), Repeatable.HARMLESS)
    assert (answer.status, now_s) == (503, 80.0)

    def away() -> Reply:
        raise agenda.ServerAwayError("gone", sent=True)

    with pytest.raises(agenda.ServerAwayError):
        retries.answer(away, Repeatable.HARMLESS)
    assert now_s == 80.0 + 50.0


def test_the_library_needs_the_standard_library_alone() -> None:
    """Importing it, and both of its clients, loads nothing that has to be installed."""
    code = (
        "import json, sys; import agenda; from agenda import AsyncClient; "
        "names = {one.partition('.')[0] for one in sys.modules}; "
        "print(json.dumps(sorted(names - set(sys.stdlib_module_names))))"
    )
    folder = Path(agenda.__file__).parents[1]  # -S finds no installed package
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    foreign = [one for one in json.loads(done.stdout) if not one.startswith("_")]
    assert foreign == ["agenda"]

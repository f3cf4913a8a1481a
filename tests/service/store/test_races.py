"""Two processes on one database at the same moment: one is stopped in the middle of its work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from dispatch.backends.run_records import RunReport, RunRow, RunState
from service.store import (
    ApplicationRow,
    LeadershipLostError,
    LogEntry,
    Snapshot,
    StatusRow,
    Store,
    Submitted,
    VersionTakenError,
    runs,
)
from service.store.engine import OutdatedError, UnavailableError, open_engine
from service.store.runs import RunRows
from tests.databases import KINDS, empty_database
from tests.patience import eventually

#: Lets a session of the name `late` wait in the middle of a statement on one table.
_PAUSE = """
CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('application_name') = 'late' THEN PERFORM pg_advisory_xact_lock(1); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER pause BEFORE {event} FOR EACH ROW EXECUTE FUNCTION pause();
"""

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database."""
    with empty_database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty PostgreSQL database."""
    with empty_database("postgresql", tmp_path) as made:
        yield made


def entry(version: int, text: str = "{}") -> LogEntry:
    """Return a log entry."""
    return LogEntry(version, 1000 + version, text.encode())


class Call(threading.Thread):
    """Something a process does alongside the others."""

    def __init__(self, do: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.do = do
        self.outcome: object = "not done"
        self.start()

    def run(self) -> None:
        """Do it, and keep what came of it."""
        try:
            self.outcome = self.do()
        except (VersionTakenError, sa.exc.DBAPIError) as error:
            self.outcome = type(error)

    def result(self) -> object:
        """Wait, and return what came of it."""
        self.join(300)
        return self.outcome


class Pause:
    """A PostgreSQL database in which sessions named `late` wait in the middle of `event`."""

    def __init__(self, url: str, event: str) -> None:
        self.engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self.connection = self.engine.connect()
        self.connection.exec_driver_sql(_PAUSE.format(event=event))
        self.connection.exec_driver_sql("SELECT pg_advisory_lock(1)")
        self.late = Store(f"{url}?application_name=late")

    def wait_for(self, *calls: Call) -> None:
        """Return when each of the calls waits for a lock or has come to its end."""
        eventually(lambda: self._still(calls) <= self._waiting(), bool)

    def end(self) -> None:
        """Let anyone who waits continue."""
        self.connection.exec_driver_sql("SELECT pg_advisory_unlock(1)")

    def close(self) -> None:
        """Give the connections back."""
        self.late.close()
        self.connection.close()
        self.engine.dispose()

    def _still(self, calls: tuple[Call, ...]) -> int:
        return sum(call.is_alive() for call in calls)

    def _waiting(self) -> int:
        return int(self.connection.exec_driver_sql(_WAITING).scalar_one())


@contextmanager
def pausing(url: str, event: str) -> Iterator[Pause]:
    """Yield a pause on a database whose tables are there."""
    pause = Pause(url, event)
    try:
        yield pause
    finally:
        pause.close()


def meanwhile(url: str, statement: str, do: Callable[[], object]) -> object:
    """Return what comes of a call that meets a statement of another process, not yet durable."""
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
        call = Call(do)
        if engine.dialect.name == "postgresql":
            with engine.connect() as looking:
                eventually(
                    lambda: looking.exec_driver_sql(_WAITING).scalar_one() or not call.is_alive(),
                    bool,
                )
    engine.dispose()
    return call.result()


class TestAppend:
    @pytest.mark.postgres
    @pytest.mark.parametrize("event", ["INSERT ON commits", "UPDATE ON head"])
    def test_is_promised_once(
        self, postgresql: str, event: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow append is not taken where others continued and pruned the log meanwhile."""
        monkeypatch.setattr("service.store.store.KEPT_BEHIND", 0)
        quick = Store(postgresql)
        quick.append([entry(v) for v in range(1, 6)])

        def overtake() -> None:
            for version in (6, 7, 8):
                quick.append([entry(version, "quick")])
            quick.save_snapshot(Snapshot(8, 0, b"eight"), 0)

        with pausing(postgresql, event) as pause:
            slow = Call(lambda: pause.late.append([entry(6, "late")]))
            pause.wait_for(slow)
            overtaking = Call(overtake)
            pause.wait_for(slow, overtaking)
            pause.end()
            outcomes = {slow.result(): "late", overtaking.result(): "quick"}

        assert set(outcomes) == {None, VersionTakenError}
        newest = quick.tail(7 if outcomes[None] == "quick" else 5)
        assert newest == [entry(8 if outcomes[None] == "quick" else 6, outcomes[None])]

    def test_waits_for_another_and_then_fails(self, url: str) -> None:
        """Two appends of one version: the second learns that the first is durable."""
        store = Store(url)
        store.append([entry(1)])
        moved = "UPDATE head SET version = 2 WHERE version = 1"

        outcome = meanwhile(url, moved, lambda: store.append([entry(2, "second")]))

        assert outcome is VersionTakenError
        assert store.tail(1) == []

    @pytest.mark.postgres
    def test_does_not_wait_for_a_host_that_is_gone(
        self, postgresql: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What a silent process has begun is undone, it is notified, and others continue."""
        Store(postgresql).close()
        monkeypatch.setattr("service.store.engine._IDLE_MS", 200)
        silent, other = Store(postgresql), Store(postgresql)

        def be_silent() -> None:
            with silent._driver.transaction() as cursor:
                cursor.execute("UPDATE head SET version = 1 WHERE version = 0")
                other.append([entry(1, "other")])
                cursor.execute("SELECT 1")

        with pytest.raises(UnavailableError):
            be_silent()

        assert other.tail(0) == [entry(1, "other")]


class TestSnapshots:
    @pytest.mark.postgres
    def test_kept_by_two_at_once_are_one(self, postgresql: str) -> None:
        """Of two workers that keep the same version one does; the other has nothing to say."""
        store = Store(postgresql)
        store.append([entry(v) for v in range(1, 6)])
        with pausing(postgresql, "INSERT ON snapshots") as pause:
            slow = Call(lambda: pause.late.save_snapshot(Snapshot(5, 0, b"five"), 0))
            pause.wait_for(slow)
            quick = Call(lambda: store.save_snapshot(Snapshot(5, 0, b"five"), 0))
            pause.wait_for(slow, quick)
            pause.end()
            assert {slow.result(), quick.result()} == {True, False}

        assert store.snapshot() == Snapshot(5, 0, b"five")


class TestSettings:
    def test_are_those_of_the_first(self, url: str) -> None:
        """Two first starters at once: both take the setting of one of them."""
        store = Store(url)
        stored = "INSERT INTO settings (name, value) VALUES ('origin', 'first')"

        outcome = meanwhile(url, stored, lambda: store.setting("origin", "second"))

        assert outcome == "first"

    def test_are_replaced_by_two_at_once(self, url: str) -> None:
        """Of two values that are stored at the same moment one stays, and no one fails."""
        store = Store(url)
        stored = "INSERT INTO settings (name, value) VALUES ('cluster', 'first')"

        outcome = meanwhile(url, stored, lambda: store.replace_setting("cluster", "second"))

        assert outcome is None
        assert store.find_setting("cluster") == "second"


_TAKE = (
    "INSERT INTO dispatching (name, holder, until_ms, body, tenure) "
    "VALUES ('dispatcher', 'two', 30, '{}', 7) "
)


class TestLease:
    @pytest.mark.parametrize("there", [False, True])
    def test_is_taken_by_one_of_two(self, url: str, there: bool) -> None:
        """Two processes that find no leader at once: one of them leads."""
        store = Store(url)
        if there:
            store.applications.lead("nobody", 0, 10)
        taken = _TAKE + "ON CONFLICT (name) DO UPDATE SET holder = 'two', until_ms = 30"

        outcome = meanwhile(url, taken, lambda: store.applications.lead("one", 20, 30))

        assert outcome == 0
        assert not store.applications.lead("one", 21, 31)

    def test_of_before_appends_nothing(self, url: str) -> None:
        """A commit of a leader counts in its tenure only; nothing of a later one is in the log."""
        store = Store(url)
        first = store.applications.lead("one", 0, 10)
        store.append([entry(1)], tenure=first)
        second = store.applications.lead("two", 20, 30)
        with pytest.raises(LeadershipLostError):
            store.append([entry(2)], tenure=first)
        with pytest.raises(LeadershipLostError):
            store.applications.write(first, [], b"{}")
        assert store.tail(1) == []
        store.append([entry(2)], tenure=second)

    @pytest.mark.postgres
    def test_is_not_taken_over_in_the_middle_of_a_write(self, postgresql: str) -> None:
        """What a dispatcher writes is durable before another dispatches, or is not written."""
        store = Store(postgresql)
        store.applications.add(ApplicationRow("a", "t", 0, b"{}"))
        store.applications.lead("one", 0, 10)
        status = StatusRow("a", "running", False, b"{}")
        with pausing(postgresql, "UPDATE ON applications") as pause:
            writing = Call(lambda: pause.late.applications.write(1, [status], None))
            pause.wait_for(writing)
            taking = Call(lambda: store.applications.lead("two", 20, 30))
            pause.wait_for(writing, taking)
            early = taking.outcome
            pause.end()
            assert (writing.result(), early, taking.result()) == (None, "not done", 2)


def test_a_log_that_was_brought_to_another_version_takes_nothing_from_an_older_one(
    url: str,
) -> None:
    """A server that runs on while another upgrades is told so at its next append, and not ready."""
    store = Store(url)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE head SET name = 'log 3'")

    with pytest.raises(OutdatedError, match="stop it and start that version"):
        store.append([entry(1)])
    with pytest.raises(OutdatedError):
        store.write_check.attempt()

    assert store.tail(0) == []


def test_a_turn_is_waited_for(url: str) -> None:
    """Of two processes that want to append one waits until the other has had its turn."""
    first, second = Store(url), Store(url)
    entered = threading.Event()

    def enter() -> None:
        with second.turn():
            entered.set()

    with first.turn(), first.turn():
        call = Call(enter)
        assert not entered.wait(0.1)
    call.result()
    assert entered.is_set()
    first.close()
    second.close()


@pytest.mark.postgres
def test_a_process_stopped_in_its_turn_keeps_no_one_from_appending(postgresql: str) -> None:
    """Who waits for too long appends without a turn; so does who has lost its connection."""
    stopped, other = Store(postgresql), Store(postgresql)
    with stopped.turn():
        with other.turn():
            other.append([entry(1)])
        other._turns._lock._connection.close()  # type: ignore[union-attr]
        with other.turn():
            other.append([entry(2)])
    with stopped.turn():
        stopped.append([entry(3)])
    stopped.close()
    other.close()


def test_of_submissions_at_once_no_more_are_taken_than_a_judge_lets(url: str) -> None:
    """Eight processes submit at the same moment where three may be: three rows are there."""
    together = threading.Barrier(8)
    refused: list[str] = []

    def judge(present: Sequence[Submitted]) -> None:
        if len(present) > 3:
            raise ValueError("one too many")

    def submit(name: str) -> None:
        store = Store(url)
        try:
            together.wait(300)
            store.applications.add(ApplicationRow(name, "t", 0, b"{}"), judge=judge)
        except ValueError:
            refused.append(name)
        finally:
            store.close()

    Store(url).close()
    calls = [threading.Thread(target=submit, args=(f"a{n}",)) for n in range(8)]
    for call in calls:
        call.start()
    for call in calls:
        call.join(300)
    store = Store(url)
    assert (len(store.applications.open()), len(refused)) == (3, 5)
    store.close()


@pytest.fixture
def running(postgresql: str) -> Iterator[tuple[RunRows, int]]:
    """Return the runs of two executors, the first of which runs `a`, and the leader's tenure."""
    rows = (store := Store(postgresql)).runs
    tenure = store.applications.lead("me", 0, 10**12)
    rows.register("one", "i", ["m-0"], 0)
    rows.register("two", "j", ["m-1"], 0)
    rows.change(tenure, [RunRow("a", "x", "w", 0, "m-0", True, b"{}", 5)], [])
    rows.sync("one", "i", [RunReport("a", RunState.RUNNING)], 20)
    yield rows, tenure
    store.close()


@pytest.mark.postgres
def test_a_start_in_the_middle_of_a_report_waits_for_the_run_before(
    running: tuple[RunRows, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader commits it between two reads of the same report: it is not handed out."""
    rows, tenure = running
    rows.change(tenure, [], ["a"])
    look = runs._leaving

    def look_and_start(connection: sa.Connection, present: Sequence[RunRow]) -> list[RunRow]:
        found = look(connection, present)
        rows.change(tenure, [RunRow("b", "x", "w", 0, "m-1", True, b"{}", 30)], [])
        return found

    monkeypatch.setattr(runs, "_leaving", look_and_start)
    assert rows.sync("two", "j", [], 40).wanted == ()
    monkeypatch.undo()
    assert rows.sync("two", "j", [], 50).wanted == ()
    rows.sync("one", "i", [RunReport("a", RunState.STOPPED)], 60)
    assert [one.id for one in rows.sync("two", "j", [], 70).wanted] == ["b"]


@pytest.mark.postgres
def test_a_run_that_another_report_ends_meanwhile_is_not_handed_out(
    postgresql: str, running: tuple[RunRows, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work was done: the run before exits while the executor of the new one reports."""
    rows, tenure = running
    rows.change(tenure, [RunRow("b", "x", "w", 0, "m-1", True, b"{}", 30)], ["a"])
    look, engine = runs._leaving, sa.create_engine(postgresql)

    def end_and_look(connection: sa.Connection, present: Sequence[RunRow]) -> list[RunRow]:
        monkeypatch.undo()
        rows.sync("one", "i", [RunReport("a", RunState.EXITED, 0)], 40)
        # As the report of a third executor, with another component of it, would.
        with engine.begin() as other:
            other.execute(sa.text("UPDATE runs SET state = 'exited' WHERE id = 'b'"))
        return look(connection, present)

    monkeypatch.setattr(runs, "_leaving", end_and_look)
    assert rows.sync("two", "j", [], 50).wanted == ()
    engine.dispose()


@pytest.mark.postgres
def test_an_executor_that_comes_back_is_notified_of_no_run_that_is_lost(postgresql: str) -> None:
    """It registers while the leader loses what was to start on its machine: one waits."""
    rows = (store := Store(postgresql)).runs
    tenure = store.applications.lead("me", 0, 10**12)
    rows.register("two", "j", ["m-1"], 0)
    rows.change(tenure, [RunRow("a", "x", "w", 0, "m-0", True, b"{}", 5)], [])
    with pausing(postgresql, "INSERT ON executors") as pause:
        back = Call(lambda: pause.late.runs.register("one", "i", ["m-0"], 40))
        pause.wait_for(back)
        losing = Call(lambda: rows.lose_unserved(tenure, ["m-0"], 50))
        pause.wait_for(back, losing)
        pause.end()
        assert losing.result() is None
        back.result()

    assert [one.id for one in rows.sync("one", "i", [], 60).wanted] == ["a"]
    store.close()

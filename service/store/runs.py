"""Executors and their runs in the database: desired runs, and their outcomes.

The leader of the dispatch writes the desired state, executors report the actual state. A run is one
start of one component on one machine; it has its own id, so that an executor starts it only once.
An executor always receives the complete desired state of its machines, never a step. So the next
message repairs a lost one, or a restart of either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from dispatch.backends.run_records import (
    LOG_BYTES,
    OPEN_RUNS,
    ExecutorRow,
    ExecutorState,
    ExecutorTakenError,
    LogExtent,
    LogPiece,
    Registration,
    RunReport,
    RunRow,
    RunState,
    SyncAnswer,
    UnknownExecutorError,
    change_of,
    done_before,
    handed_out,
    tasks_of,
)
from service.store.applications import require_leader
from service.store.audit import AuditRow, write_audit
from service.store.schema import applications, executors, run_logs, runs

#: Most ids in one statement: databases limit its parameters.
_MOST_IDS: Final = 1000


class RunRows:
    """The tables of executors and runs.

    Parameters
    ----------
    engine
        The database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    # Calls of executors.

    def register(
        self,
        id_: str,
        instance: str,
        machines: Sequence[str],
        now_ms: int,
        audited: AuditRow | None = None,
        address: str = "",
        engine: str = "",
    ) -> Registration:
        """Register an executor, or renew its registration.

        Parameters
        ----------
        address, engine
            As of `ExecutorRow`; an empty address is its id.
        audited
            Its audit row; not written if it is already registered in the same way.

        Raises
        ------
        ExecutorTakenError
            If another live process has the name, another live executor has one of the machines, or
            it still has runs on a machine that it drops.
        """
        with self._engine.begin() as connection:
            known = {row.id: row for row in _executors(connection, lock=True)}
            old = known.get(id_)
            if old is not None and old.state is not ExecutorState.LOST and old.instance != instance:
                raise ExecutorTakenError(
                    f"another process reports as {id_!r} and is not lost yet; wait for its lease, "
                    "or register under another name (agenda executor --id)"
                )
            for other in known.values():
                both = sorted(set(other.machines) & set(machines))
                if other.id == id_ or not both:
                    continue
                if other.state is not ExecutorState.LOST:
                    raise ExecutorTakenError(f"{both[0]} belongs to the executor {other.id!r}")
                rest = tuple(name for name in other.machines if name not in machines)
                _set(connection, other.id, machines=_text(rest))
            values: dict[str, Any] = {
                "instance": instance, "machines": _text(machines), "address": address or id_,
                "engine": engine,
            }  # fmt: skip
            number = 0 if old is None else old.renewals + 1
            if old is None:
                fresh = {"state": ExecutorState.LIVE.value, "renewals": number, "lost_ms": None}
                values |= {"id": id_, "registered_ms": now_ms, **fresh}
                connection.execute(sa.insert(executors).values(**values))
            else:
                gone = [name for name in old.machines if name not in machines]
                busy = _runs(connection, sa.and_(runs.c.machine.in_(gone), _IS_OPEN))
                if busy:
                    raise ExecutorTakenError(f"{id_!r} still has runs on {busy[0].machine}")
                _set(connection, id_, renewals=number, **values)
            known_so = old is not None and (old.instance, old.machines) == (instance, (*machines,))
            if audited is not None and not known_so:
                write_audit(connection, audited)
        return Registration(old is None, number)

    def sync(
        self,
        id_: str,
        instance: str,
        reports: Iterable[RunReport],
        now_ms: int,
        after: int | None = None,
    ) -> SyncAnswer:
        """Store an executor's reports, and return its desired runs.

        Parameters
        ----------
        after
            Number of the answer that the report follows. An outdated report that arrives late would
            end runs that have begun since. None to skip the check.

        Raises
        ------
        UnknownExecutorError
            If it must register first.
        """
        told = {one.id: one for one in reports}
        with self._engine.begin() as connection:
            row = next(iter(_executors(connection, id_, lock=True)), None)
            if row is None or row.instance != instance:
                raise UnknownExecutorError(f"there is no executor {id_!r}; register it first")
            if after is not None and after != row.renewals:
                raise UnknownExecutorError(
                    f"this report follows answer {after} to {id_!r}, and answer {row.renewals} "
                    "is the newest; register again"
                )
            number = row.renewals + 1
            state = ExecutorState.BACK if row.state is ExecutorState.LOST else row.state
            _set(connection, id_, renewals=number, state=state.value)
            present = {
                one.id: one
                for one in _runs(
                    connection,
                    sa.or_(
                        runs.c.id.in_(list(told)),
                        sa.and_(runs.c.machine.in_(list(row.machines)), _IS_OPEN),
                    ),
                )
            }
            for run in present.values():
                change = change_of(run, told.get(run.id), now_ms)
                if change:
                    connection.execute(
                        sa.update(runs).where(runs.c.id == run.id).values(**change, news=True)
                    )
            here = sa.and_(runs.c.machine.in_(list(row.machines)), _IS_OPEN)
            # Others may commit between two reads. Stops that precede a start seen in the first read
            # are seen in the second; runs missing in the last read have ended meanwhile, or just
            # now.
            before = _runs(connection, here)
            leaving = _leaving(connection, before)
            _end_done(connection, before, leaving, now_ms)
            seen = {run.id for run in before}
            open_now = [run for run in _runs(connection, here) if run.id in seen]
        settled = [
            one.id
            for one in told.values()
            if one.state not in OPEN_RUNS or one.id not in present or not present[one.id].is_open
        ]
        if state is not ExecutorState.LIVE:
            return SyncAnswer((), tuple(settled), number)
        return SyncAnswer(handed_out(open_now, told, leaving), tuple(settled), number)

    def remove(self, id_: str, audited: AuditRow | None = None) -> bool:
        """Delete an executor without runs; return whether it was known.

        Raises
        ------
        ExecutorTakenError
            If it has runs.
        """
        with self._engine.begin() as connection:
            row = next(iter(_executors(connection, id_, lock=True)), None)
            if row is None:
                return False
            busy = _runs(connection, sa.and_(runs.c.machine.in_(list(row.machines)), _IS_OPEN))
            if busy:
                raise ExecutorTakenError(f"{id_!r} has {len(busy)} runs that have not ended")
            connection.execute(sa.delete(executors).where(executors.c.id == id_))
            if audited is not None:
                write_audit(connection, audited)
        return True

    def add_logs(self, id_: str, instance: str, pieces: Sequence[LogPiece]) -> list[LogExtent]:
        """Store output of an executor's runs; return the stored range of each piece's stream.

        A piece that begins before the end of the stored range is ignored: it was sent before. The
        newest `LOG_BYTES` of each stream are kept; output of runs on other machines is ignored.

        Raises
        ------
        UnknownExecutorError
            If it must register first.
        """
        with self._engine.begin() as connection:
            row = next(iter(_executors(connection, id_)), None)
            if row is None or row.instance != instance:
                raise UnknownExecutorError(f"there is no executor {id_!r}; register it first")
            asked = runs.c.id.in_([one.run for one in pieces])
            here = sa.and_(asked, runs.c.machine.in_(list(row.machines)))
            own = set(connection.execute(sa.select(runs.c.id).where(here)).scalars())
            for piece in pieces:
                if piece.run in own and piece.body:
                    _add_piece(connection, piece)
            extents = _extents(connection, own)
        return [extents.get((one.run, one.stream), LogExtent()) for one in pieces]

    # Reads by any process.

    def log_extents(self, ids: Iterable[str]) -> dict[tuple[str, str], LogExtent]:
        """Return the stored ranges of the streams of runs, by run and stream."""
        chosen, found = list(ids), {}
        with self._read_only() as connection:
            for first in range(0, len(chosen), _MOST_IDS):
                found.update(_extents(connection, chosen[first : first + _MOST_IDS]))
        return found

    def log(self, run: str, stream: str, after: int, limit: int) -> tuple[int, bytes]:
        """Return where the output of a stream from `after` on begins, and at most `limit` bytes.

        It begins later if the data at `after` is deleted, and is empty at the end.
        """
        table = run_logs.c
        chosen = (table.run == run, table.stream == stream, table.finish > after)
        query = sa.select(table.start, table.body).where(*chosen).order_by(table.start)
        body, start = b"", after
        with self._read_only() as connection:
            for first, piece in connection.execution_options(yield_per=16).execute(query):
                if not body:
                    start = max(first, after)
                    body = bytes(piece)[start - first :]
                elif first == start + len(body):
                    body += bytes(piece)
                else:  # a piece in between was never sent
                    break
                if len(body) >= limit:
                    break
        return start, body[:limit]

    def executors(self) -> list[ExecutorRow]:
        """Return all executors by name."""
        with self._read_only() as connection:
            return _executors(connection)

    def of_execution(self, execution: str, **chosen: str | None) -> list[RunRow]:
        """Return the runs of an execution without their documents, oldest first.

        Parameters
        ----------
        chosen
            Values that columns must have; None: any.
        """
        where = [runs.c[name] == value for name, value in chosen.items() if value is not None]
        without = [column for column in runs.c if column is not runs.c.document]
        query = sa.select(*without, sa.literal(b"").label("document"))
        with self._read_only() as connection:
            return _runs(connection, sa.and_(runs.c.execution == execution, *where), query)

    # Calls of the leader.

    def of_open_applications(self) -> list[RunRow]:
        """Return the runs of all applications that have not ended."""
        going_on = sa.select(applications.c.id).where(~applications.c.over)
        with self._read_only() as connection:
            return _runs(connection, runs.c.execution.in_(going_on))

    def with_ports(self) -> list[RunRow]:
        """Return the runs that have ports and have not ended."""
        with self._read_only() as connection:
            return _runs(connection, sa.and_(runs.c.ports != "", _IS_OPEN))

    def news(self) -> list[RunRow]:
        """Return the runs that have changed since the leader last read their state."""
        with self._read_only() as connection:
            return _runs(connection, runs.c.news)

    def change(self, tenure: int, starts: Sequence[RunRow], stops: Sequence[str]) -> None:
        """Store runs to start and to stop.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was written.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            if stops:
                chosen = runs.c.id.in_(list(stops))
                connection.execute(sa.update(runs).where(chosen).values(wanted=False))
            if starts:
                connection.execute(sa.insert(runs), [_values(run) for run in starts])

    def stop_all_but(self, tenure: int, kept: Iterable[str]) -> None:
        """Stop all but some runs, after a write whose outcome is unknown.

        Raises
        ------
        LeadershipLostError
            As :meth:`change`.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            known = set(kept)
            there = _runs(connection, sa.and_(runs.c.wanted, _IS_OPEN))
            stray = [run.id for run in there if run.id not in known]
            if stray:
                chosen = runs.c.id.in_(stray)
                connection.execute(sa.update(runs).where(chosen).values(wanted=False))

    def lose(self, tenure: int, executor: ExecutorRow, now_ms: int) -> bool:
        """Mark an executor and its runs as lost; False if it has reported meanwhile.

        Raises
        ------
        LeadershipLostError
            As :meth:`change`.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            lost = connection.execute(
                sa.update(executors)
                .where(executors.c.id == executor.id, executors.c.renewals == executor.renewals)
                .values(state=ExecutorState.LOST.value, lost_ms=now_ms)
            )
            if lost.rowcount != 1:
                return False
            _end(connection, runs.c.machine.in_(list(executor.machines)), RunState.LOST, now_ms)
        return True

    def lose_unserved(self, tenure: int, machines: Iterable[str], now_ms: int) -> None:
        """Mark runs as lost that were to start on machines without an executor.

        Runs that an executor has begun, or whose executor has just returned, are not changed.

        Raises
        ------
        LeadershipLostError
            As :meth:`change`.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            if connection.dialect.name == "postgresql":
                # Row locks do not prevent inserts.
                connection.execute(sa.text(f"LOCK TABLE {executors.name} IN SHARE MODE"))
            there = {name for row in _executors(connection) for name in row.machines}
            chosen = runs.c.machine.in_(sorted(set(machines) - there))
            never_begun = sa.and_(chosen, runs.c.state == RunState.ASSIGNED.value)
            _end(connection, never_begun, RunState.LOST, now_ms)

    def welcome(self, tenure: int, id_: str) -> None:
        """Mark the machines of a returned executor as usable again.

        Raises
        ------
        LeadershipLostError
            As :meth:`change`.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            connection.execute(
                sa.update(executors)
                .where(executors.c.id == id_, executors.c.state == ExecutorState.BACK.value)
                .values(state=ExecutorState.LIVE.value, lost_ms=None)
            )

    def purge(self, before_ms: int) -> None:
        """Delete runs of ended applications that ended before an instant."""
        over = sa.select(applications.c.id).where(applications.c.over)
        old = sa.and_(runs.c.ended_ms < before_ms, runs.c.execution.in_(over))
        with self._read_only() as connection:
            found = connection.execute(sa.select(runs.c.id).where(old).limit(1)).first()
        if found is None:  # usually: then no write lock is taken
            return
        with self._engine.begin() as connection:
            gone = sa.select(runs.c.id).where(old)
            connection.execute(sa.delete(run_logs).where(run_logs.c.run.in_(gone)))
            connection.execute(sa.delete(runs).where(old))

    def _read_only(self) -> sa.Connection:
        return self._engine.connect().execution_options(agenda_read_only=True)


def settle_news(connection: sa.Connection, taken: Iterable[RunRow]) -> None:
    """Record that the leader has read the states of runs, unless they have changed since."""
    for run in taken:
        same = sa.and_(runs.c.id == run.id, runs.c.state == run.state.value)
        connection.execute(sa.update(runs).where(same).values(news=False))


def _add_piece(connection: sa.Connection, piece: LogPiece) -> None:
    """Store a piece unless it was stored before, and delete old pieces."""
    table = run_logs.c
    stream = sa.and_(table.run == piece.run, table.stream == piece.stream)
    end = connection.execute(sa.select(sa.func.max(table.finish)).where(stream)).scalar() or 0
    if piece.start < end:
        return
    finish = piece.start + len(piece.body)
    row = {"run": piece.run, "stream": piece.stream, "start": piece.start, "finish": finish}
    connection.execute(sa.insert(run_logs).values(**row, body=piece.body))
    connection.execute(sa.delete(run_logs).where(stream, table.finish <= finish - LOG_BYTES))


def _extents(connection: sa.Connection, ids: Iterable[str]) -> dict[tuple[str, str], LogExtent]:
    table = run_logs.c
    ends = sa.func.min(table.start), sa.func.max(table.finish)
    query = sa.select(table.run, table.stream, *ends).where(table.run.in_(list(ids)))
    found = connection.execute(query.group_by(table.run, table.stream))
    return {(run, stream): LogExtent(start, end) for run, stream, start, end in found}


def _leaving(connection: sa.Connection, present: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs still being stopped of executions that restart."""
    waiting = {run.execution for run in present if run.state is RunState.ASSIGNED}
    if not waiting:
        return []
    chosen = sa.and_(runs.c.execution.in_(sorted(waiting)), ~runs.c.wanted, _IS_OPEN)
    return _runs(connection, chosen)


def _end_done(
    connection: sa.Connection, present: Iterable[RunRow], leaving: Iterable[RunRow], now_ms: int
) -> None:
    """End executions that restart although all their core components have finished.

    Their runs exited just when they were to be stopped. If one did not, all restart. This is
    decided when all of them have ended, and no new run is handed out before. The same holds for
    each task.
    """
    going = {run.execution for run in leaving if run.core}
    assigned = [run for run in present if run.state is RunState.ASSIGNED]
    fresh = {run.execution for run in assigned if run.core and run.task is None}
    rows: dict[str, list[RunRow]] = {}
    if fresh - going:
        chosen = runs.c.execution.in_(sorted(fresh - going))
        for run in _runs(connection, sa.and_(chosen, runs.c.core)):
            rows.setdefault(run.execution, []).append(run)
    done = [one.id for mine in rows.values() for one in done_before(mine)]
    waiting = tasks_of(assigned)
    if waiting:
        of_tasks = sa.and_(
            runs.c.execution.in_(sorted({execution for execution, _ in waiting})),
            runs.c.task.in_(sorted({task for _, task in waiting})),
            runs.c.state == RunState.EXITED.value,
        )
        query = sa.select(runs.c.execution, runs.c.task).where(of_tasks)
        over = {(execution, task) for execution, task in connection.execute(query)}
        done += [run.id for run in assigned if run.wanted and (run.execution, run.task) in over]
    if not done:
        return
    end = {"state": RunState.EXITED.value, "started_ms": now_ms, "ended_ms": now_ms, "code": 0}
    detail = "an earlier run had done its work"
    ended = sa.update(runs).where(runs.c.id.in_(done))
    connection.execute(ended.values(**end, detail=detail, news=True))


_IS_OPEN: Final = runs.c.state.in_([state.value for state in sorted(OPEN_RUNS)])


def _text(machines: Sequence[str]) -> str:
    return msgspec.json.encode(list(machines)).decode()


def _set(connection: sa.Connection, id_: str, **values: Any) -> None:
    connection.execute(sa.update(executors).where(executors.c.id == id_).values(**values))


def _end(
    connection: sa.Connection, chosen: sa.ColumnElement[bool], state: RunState, now_ms: int
) -> None:
    connection.execute(
        sa.update(runs)
        .where(chosen, _IS_OPEN)
        .values(state=state.value, ended_ms=now_ms, wanted=False, news=True)
    )


def _executors(
    connection: sa.Connection, id_: str | None = None, *, lock: bool = False
) -> list[ExecutorRow]:
    query = sa.select(executors).order_by(executors.c.id)
    if id_ is not None:
        query = query.where(executors.c.id == id_)
    if lock:
        query = query.with_for_update()
    return [
        ExecutorRow(
            row["id"],
            row["instance"],
            tuple(msgspec.json.decode(row["machines"])),
            row["address"],
            row["engine"],
            ExecutorState(row["state"]),
            row["renewals"],
            row["registered_ms"],
            row["lost_ms"],
        )
        for row in connection.execute(query).mappings()
    ]


def _runs(
    connection: sa.Connection, chosen: sa.ColumnElement[bool], of: sa.Select[Any] | None = None
) -> list[RunRow]:
    query = sa.select(runs) if of is None else of
    ordered = query.where(chosen).order_by(runs.c.since_ms, runs.c.id)
    found = connection.execute(ordered).mappings().all()
    return [RunRow(**{**dict(row), "state": RunState(row["state"])}) for row in found]


def _values(run: RunRow) -> dict[str, Any]:
    names = RunRow.__dataclass_fields__
    return {name: getattr(run, name) for name in names} | {"state": run.state.value}

"""Points of an experiment: where they run, and the file that stores those that are finished.

Points run in this process, in worker processes or on a Dask cluster, each behind
`concurrent.futures.Executor`. The file has one JSON object a line: first what was run by which
version, then a point each, by its function and arguments. Answers are pickled, because they are
reused bit by bit; only data is read back, never code.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from service.cli.kit.errors import CliError
from service.jobs.data_pickle import read_data

#: Seconds that a Dask scheduler has to answer, and between two looks at whether to stop.
_CONNECT_S: Final = 5
_LOOK_S: Final = 0.2

#: Points that a Dask cluster is given at a time.
_MOST_SENT: Final = 512


def point_of(part: Callable[[], Any]) -> str:
    """Return what a part of an experiment is, by its function and arguments."""
    if isinstance(part, partial):
        named = [f"{name}={value!r}" for name, value in sorted(part.keywords.items())]
        return f"{part.func.__name__}({', '.join([*map(repr, part.args), *named])})"
    return getattr(part, "__name__", repr(part))


class PointsFile:
    """The points of one experiment that are done.

    Parameters
    ----------
    path
        The file; made where it is not there.

    Attributes
    ----------
    done
        Answers by point.

    Raises
    ------
    CliError
        If the file holds something else, or points of another experiment or version, or another
        command keeps its points there now.
    """

    def __init__(self, path: Path, experiment: str) -> None:
        self._path = path
        self._head = {"experiment": experiment, "agenda": version("cluster-agenda")}
        self.done: dict[str, Any] = {}
        self._file = path.open("ab")
        try:
            self._hold()
            whole = self._read()
        except CliError:
            self._file.close()
            raise
        self._file.truncate(whole)
        if not whole:
            self._write(self._head)

    def keep(self, point: str, answer: Any) -> None:
        """Append a point; when it returns, the point outlives this process."""
        self.done[point] = answer
        raw = base64.b64encode(pickle.dumps(answer)).decode()
        self._write({"point": point, "answer": raw})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _hold(self) -> None:
        """Keep other commands away; the system lets them in when this process ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CliError(
                f"{self._path}: another command keeps its points there; wait for it, or name "
                "another file"
            ) from error

    def _write(self, line: dict[str, str]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def _read(self) -> int:
        """Read all whole lines; return their length. A run that was killed leaves part of one."""
        raw = self._path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        lines = raw[:whole].splitlines()
        if lines or raw:
            self._check_head(lines[0] if lines else raw)
        for number, line in enumerate(lines[1:], 2):
            try:
                entry = json.loads(line)
                answer = read_data(base64.b64decode(entry["answer"]), also="bench")
                self.done[entry["point"]] = answer
            except (ValueError, KeyError, TypeError, binascii.Error, pickle.UnpicklingError) as why:
                raise CliError(f"{self._path}: line {number} is no point: {why}") from why
        return whole

    def _check_head(self, line: bytes) -> None:
        try:
            head = json.loads(line)
            experiment, release = head["experiment"], head["agenda"]
        except (ValueError, KeyError, TypeError) as error:
            raise CliError(f"{self._path}: this is no file of points; name a new one") from error
        if head != self._head:
            ours = self._head
            raise CliError(
                f"{self._path}: it holds points of {experiment} by Agenda {release}, not of "
                f"{ours['experiment']} by {ours['agenda']}; name another file"
            )


@contextmanager
def executor_of(workers: int, dask: str | None) -> Iterator[Executor | None]:
    """Provide the executor of `workers` processes or of a Dask cluster; None for this process.

    Raises
    ------
    CliError
        If the address is malformed, no scheduler answers there, or `distributed` is missing.
    """
    if dask is not None:
        with _dask_client(dask) as client, client.get_executor(pure=False) as executor:
            yield executor
    elif workers > 1:
        # New processes, not copies: numba's threads do not survive a fork.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, spawn, initializer=_ignore_interrupts) as executor:
            yield executor
    else:
        yield None


def _dask_client(address: str) -> Any:
    if not address.startswith(("tcp://", "tls://")) or not address.rpartition(":")[2].isdigit():
        raise CliError(f"{address!r} is not a Dask scheduler; write tcp://HOST:PORT")
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise CliError("a Dask cluster needs the package distributed: pip install it") from error
    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise CliError(f"no Dask scheduler answers at {address} within {_CONNECT_S} s") from error


def _ignore_interrupts() -> None:
    """Leave ^C to the command: points that have started finish."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def answers_of(
    work: Sequence[Callable[[], Any]], executor: Executor | None, stop: Callable[[], bool]
) -> Iterator[tuple[int, Any]]:
    """Yield index and answer of each piece of work as it ends.

    After a stop, what has started finishes and nothing else starts; the first always runs.

    Raises
    ------
    CliError
        If a worker process died.
    """
    if executor is None:
        for index, one in enumerate(work):
            if index and stop():
                return
            yield index, one()
        return
    waiting = list(enumerate(work))[::-1]
    running: dict[Any, int] = {}
    # Only as many as run, so that a stop leaves little to finish.
    most = getattr(executor, "_max_workers", _MOST_SENT)
    started = False
    try:
        while waiting or running:
            while waiting and len(running) < most and not (started and stop()):
                index, one = waiting.pop()
                running[executor.submit(one)] = index
                started = True
            if not running:
                return
            done, _ = wait(running, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
            if stop():
                for future in [one for one in running if one.cancel()]:
                    del running[future]
    except BrokenExecutor as error:
        raise CliError(f"a worker process died: {error}; --resume keeps what is done") from error
    finally:
        for future in running:
            future.cancel()

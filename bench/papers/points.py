"""Points of an experiment, and the file that stores those that are finished.

The file has one JSON object a line: first what was run by which version, then a point each, by its
function and arguments. Answers are pickled, because they are reused bit by bit; only data is read
back, never code.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from service.cli.kit.errors import CliError


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
                answer = read_data(base64.b64decode(entry["answer"]))
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


#: Packages whose classes may hold data, and classes of others that do.
_OURS: Final = ("bench", "dispatch", "planner", "rdl", "lp", "service")
_OTHERS: Final = {("fractions", "Fraction"), ("datetime", "datetime"), ("datetime", "timezone")}


def read_data(raw: bytes) -> Any:
    """Return what was pickled, without running code: plain values and our classes of data.

    Raises
    ------
    pickle.UnpicklingError
        If it is cut off, or holds anything but data.
    """
    try:
        return _DataReader(io.BytesIO(raw)).load()
    except (EOFError, AttributeError, ImportError, IndexError) as error:
        raise pickle.UnpicklingError(f"this cannot be read back: {error}") from error


class _DataReader(pickle.Unpickler):
    """Finds no function and no class that does things when it is made."""

    def find_class(self, module: str, name: str) -> Any:
        known = module.partition(".")[0] in _OURS or (module, name) in _OTHERS
        found = super().find_class(module, name) if known else None
        is_data = isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum))
        if not is_data and (module, name) not in _OTHERS:
            raise pickle.UnpicklingError(f"{module}.{name} is no data")
        return found

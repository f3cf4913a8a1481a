"""Logs of components that run as Slurm jobs: files in a folder that nodes and servers share.

Each execution has a folder there, in that of the service's prefix. The name of a file says which
replica wrote it, on which machine and in which job; Slurm fills in the job's number.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dispatch.backends.run_records import LOG_BYTES, STREAMS
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.executions.assignment import Key

#: Separates the parts of a file's name; no name of a component or machine has it.
_MARK: Final = ","

#: What the names of folders of executions begin with: an id may be ``..``.
_APPLICATION: Final = "app-"

#: Options of fallocate(2): free the space of a range of a file, and keep its size.
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


@dataclass(frozen=True, slots=True)
class JobLog:
    """What one job wrote to one stream.

    Attributes
    ----------
    component, index, machine, job, stream
        Who wrote it, and to what.
    path, size
        The file, and how many bytes were written to it.
    """

    component: str
    index: int
    machine: str
    job: str
    stream: str
    path: Path
    size: int

    @property
    def first(self) -> int:
        """Offset of the first byte that is kept."""
        return max(0, self.size - LOG_BYTES)

    def read(self, after: int, limit: int) -> tuple[int, bytes]:
        """Return where a piece begins, from `after` on, and at most `limit` bytes of it."""
        start = min(max(after, self.first), self.size)
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return start, file.read(min(limit, self.size - start))
        except OSError:  # it was deleted meanwhile
            return start, b""


def log_paths(settings: SlurmSettings, key: Key, machine: str) -> tuple[str, str]:
    """Return where a component's job writes its standard output, and its errors."""
    if not settings.logs:
        stem = f"{settings.directory}/{settings.prefix}-%j"
        return f"{stem}.out", f"{stem}.err"
    name = _MARK.join((str(key[2]), machine, "%j", key[1]))
    out, err = (f"{_folder(settings, key[0])}/{name}.{stream}" for stream in STREAMS)
    return out, err


def make_folder(settings: SlurmSettings, execution: str) -> None:
    """Make the folder of an execution, which Slurm does not make.

    Raises
    ------
    SlurmError
        If that fails.
    """
    if settings.logs:
        try:
            _folder(settings, execution).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SlurmError(f"the folder of logs cannot be used: {error}") from error


def logs_of(settings: SlurmSettings, execution: str) -> list[JobLog]:
    """Return what the jobs of an execution wrote, by job; empty files are left out."""
    if not settings.logs:
        return []
    found = [log for log in _logs_in(_folder(settings, execution)) if log.size]
    return sorted(found, key=lambda log: (int(log.job), STREAMS.index(log.stream)))


def limit_logs(settings: SlurmSettings, before_s: float, is_over: Callable[[str], bool]) -> None:
    """Free what is not kept: all but the last bytes of each file, and old folders.

    Parameters
    ----------
    before_s
        Unix time: folders in which nothing was written since are deleted if `is_over` is true of
        their execution.
    """
    if not settings.logs:
        return
    for folder in (Path(settings.logs) / settings.prefix).glob(f"{_APPLICATION}*"):
        logs = list(_logs_in(folder))
        for log in logs:
            _free(log)
        with contextlib.suppress(OSError):
            newest = max(entry.stat().st_mtime for entry in [folder, *(one.path for one in logs)])
            if newest < before_s and is_over(folder.name.removeprefix(_APPLICATION)):
                shutil.rmtree(folder, ignore_errors=True)


def _folder(settings: SlurmSettings, execution: str) -> Path:
    return Path(settings.logs) / settings.prefix / f"{_APPLICATION}{execution}"


def _logs_in(folder: Path) -> Iterator[JobLog]:
    """Yield the logs in a folder, which jobs may be adding to."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        name, _, stream = entry.name.rpartition(".")
        words = name.split(_MARK)
        if len(words) == 4 and words[0].isdecimal() and words[2].isdecimal() and stream in STREAMS:
            with contextlib.suppress(OSError):
                size = entry.stat().st_size
                path = Path(entry.path)
                yield JobLog(words[3], int(words[0]), words[1], words[2], stream, path, size)


def _free(log: JobLog) -> None:
    """Free the space of what is not kept of a file; its offsets stay.

    Where the file system cannot do that, such as NFS before 4.2, the file stays as it is.
    """
    with contextlib.suppress(OSError):
        if log.first and log.path.stat().st_blocks * 512 > 2 * LOG_BYTES:
            descriptor = os.open(log.path, os.O_RDWR)
            try:
                ctypes.CDLL(None).fallocate(
                    descriptor, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(log.first)
                )
            finally:
                os.close(descriptor)

"""Processes of this machine, and the temporary folders that they lock.

Both need Linux; elsewhere the first does nothing and the second finds none.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: Option of prctl(2): the signal for this process when its parent ends.
_PR_SET_PDEATHSIG: Final = 1

#: State of a listening TCP socket in /proc/net/tcp.
_LISTENS: Final = "0A"

_SHOWN: Final = 80

#: Name prefix of a folder until it is locked, so that it is not taken for a stale one.
_UNLOCKED: Final = "agenda-new-"


def end_with_parent(parent: int) -> None:
    """Have this process killed immediately when its parent ends, for any reason.

    A worker without its master would keep the port as long as its clients stay, and a new server
    could not listen there. Nothing is lost: answered changes are on disk.

    Parameters
    ----------
    parent
        Its process id; if it has already ended, this process ends too.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def listener_on(port: int) -> str:
    """Return the id and command of the process that listens on a port; empty if unknown."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    for process in Path("/proc").glob("[0-9]*"):
        # Processes of other users cannot be read, and any may end meanwhile.
        with contextlib.suppress(OSError):
            if any(str(one.readlink()) in sockets for one in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                return f"process {process.name} ({command[:_SHOWN]})"
    return ""


def _listening(port: int) -> list[str]:
    """Return the inodes of the sockets that listen on a port."""
    found: list[str] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    found.append(fields[9])
    return found


# A folder is locked (flock) as long as its process, or a child forked from it, lives. The system
# releases the lock however they end, in whatever container they ran; so an unlocked folder is
# stale.


def hold_folder(prefix: str) -> Path:
    """Return a new folder with a name prefix, locked until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=_UNLOCKED))
    with contextlib.suppress(OSError):  # if folders cannot be locked, none is removed either
        fcntl.flock(_opened(folder), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder.rename(folder.with_name(prefix + folder.name.removeprefix(_UNLOCKED)))


@contextmanager
def passing_folder(prefix: str) -> Iterator[Path]:
    """Remove stale folders; yield a new folder that is removed at the end.

    A process that was forked in between leaves the removal to its parent.
    """
    remove_left_folders(prefix)
    folder, owner = hold_folder(prefix), os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders(prefix: str, older_s: float = 0.0) -> None:
    """Remove the folders of this user that are unused and unchanged for some time."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another user removes it, or its file system forbids
            if _is_left(folder, older_s):
                shutil.rmtree(folder)


def _is_left(folder: Path, older_s: float) -> bool:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    if time.time() - found.st_mtime < older_s:
        return False
    opened = _opened(folder)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(opened)
    return True


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

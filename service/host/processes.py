"""Processes of this machine: end one with its parent; find the one that listens on a port.

Both need Linux; elsewhere the first does nothing and the second finds none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

#: Option of prctl(2): the signal for this process when its parent ends.
_PR_SET_PDEATHSIG: Final = 1

#: State of a listening TCP socket in /proc/net/tcp.
_LISTENS: Final = "0A"

_SHOWN: Final = 80


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

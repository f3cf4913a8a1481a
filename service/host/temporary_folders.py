"""Temporary folders that a process holds: what a killed one leaves, the next one removes.

A folder is locked (flock) for as long as its process, or a child forked from it, lives. The system
takes the lock away however they end, in whatever container they ran; so a folder that no one holds
is left over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: How a folder is called until it is locked: no one takes it for one that is left over.
_UNLOCKED: Final = "agenda-new-"


def hold_folder(prefix: str) -> Path:
    """Return a new folder whose name begins so; it is held until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=_UNLOCKED))
    with contextlib.suppress(OSError):  # where folders cannot be locked none is removed either
        fcntl.flock(_opened(folder), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder.rename(folder.with_name(prefix + folder.name.removeprefix(_UNLOCKED)))


@contextmanager
def passing_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that is removed at the end; and remove those that were left over.

    A process that was forked in between leaves it to its parent.
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

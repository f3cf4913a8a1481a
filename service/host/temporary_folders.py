"""Temporary folders locked by their process; those of killed processes are removed by the next one.

A folder is locked (flock) as long as its process, or a child forked from it, lives. The system
releases the lock however they end, in whatever container they ran; so an unlocked folder is stale.
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

#: Name prefix of a folder until it is locked, so that it is not taken for a stale one.
_UNLOCKED: Final = "agenda-new-"


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

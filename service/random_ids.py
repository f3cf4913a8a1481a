"""RandomIds: random text from bytes that are read from the system in large blocks.

Each system call may switch threads, which takes more time than all random bytes of a call.
"""

from __future__ import annotations

import os
from typing import Final

#: Bytes per block.
_STORE: Final = 4096


class RandomIds:
    """Makes random hexadecimal text, for the threads of one process.

    Parameters
    ----------
    size
        Random bytes of each text.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pieces: list[bytes] = []
        self._process = 0

    def new(self) -> str:
        """Return the next text; a forked process starts with a new block."""
        if self._process != os.getpid():
            self._pieces, self._process = [], os.getpid()
        try:
            return self._pieces.pop().hex()
        except IndexError:
            found = os.urandom(_STORE - _STORE % self._size)
            size = self._size
            self._pieces.extend(found[at : at + size] for at in range(size, len(found), size))
            return found[:size].hex()

"""RandomIds: random text, of bytes that are asked of the system many at a time.

Each way to the system lets another thread have the interpreter, which costs a call more than all
its random bytes.
"""

from __future__ import annotations

import os
from typing import Final

#: Bytes that are requested at once.
_STORE: Final = 4096


class RandomIds:
    """Hexadecimal text that no one can guess, for the threads of one process.

    Parameters
    ----------
    size
        Random bytes of each.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pieces: list[bytes] = []
        self._process = 0

    def new(self) -> str:
        """Return the next; a forked process begins again."""
        if self._process != os.getpid():
            self._pieces, self._process = [], os.getpid()
        try:
            return self._pieces.pop().hex()
        except IndexError:
            found = os.urandom(_STORE - _STORE % self._size)
            size = self._size
            self._pieces.extend(found[at : at + size] for at in range(size, len(found), size))
            return found[:size].hex()

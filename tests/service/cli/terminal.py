"""A command on a terminal of its own: what it writes there, and what a key does to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Mapping
from typing import Final

from tests.end_to_end.fork_server import fork

#: What a terminal sends for ^C.
INTERRUPT: Final = b"\x03"

_ROWS, _WIDE = 50, 200

#: A command that stands in the terminal's foreground, so that ^C reaches it.
_COMMAND: Final = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from service.cli.main import main; main(prog_name='agenda')"
)

#: The terminal says how wide it is, and not what started the tests.
_INHERITED: Final = {
    name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
}
CONTROLS: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def on_terminal(
    *arguments: object,
    key_after: str | None = None,
    environment: Mapping[str, str] | None = None,
    columns: int = _WIDE,
) -> tuple[int, str]:
    """Run `agenda` with a terminal as all three of its streams.

    Parameters
    ----------
    key_after
        ^C is pressed once, when this pattern was first seen.

    Returns
    -------
    tuple
        Exit code, and all that was written, without the terminal's control sequences.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    process = fork(
        _COMMAND,
        [str(one) for one in arguments],
        (theirs, theirs, theirs),
        {**_INHERITED, "TERM": "xterm", **(environment or {})},
    )
    os.close(theirs)
    written = ""
    try:
        while True:
            written += _read(ours)
            if key_after is not None and re.search(key_after, written):
                os.write(ours, INTERRUPT)
                key_after = None
    except OSError:  # no one holds the other end any more
        return process.wait(), written
    finally:
        os.close(ours)


def _read(descriptor: int) -> str:
    raw = os.read(descriptor, 65536)
    if not raw:
        raise OSError("the terminal was closed")
    return CONTROLS.sub("", raw.decode("utf-8", errors="replace"))

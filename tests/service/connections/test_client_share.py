"""ClientShare: a process that has more clients than the others knows it."""

from __future__ import annotations

import os
import signal

from service.server import ClientShare


def test_a_process_with_more_clients_than_another_is_ahead() -> None:
    """What a forked process tells is known to all; one that was killed has none."""
    share = ClientShare(2)
    began, began_end = os.pipe()
    child = os.fork()
    if not child:
        share.tell(3)
        os.write(began_end, b"!")
        signal.pause()
    try:
        os.read(began, 1)
        assert [share.is_ahead(clients) for clients in (0, 2, 3, 4)] == [False, False, False, True]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert share.is_ahead(1)


def test_a_process_alone_takes_every_client() -> None:
    """Where no other serves the port, nothing is waited for."""
    share = ClientShare(1)
    share.tell(5)
    assert not share.is_ahead(5)

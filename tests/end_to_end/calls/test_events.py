"""Streams of events of a real server: many at once, slow readers, restarts, two workers."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

from service.cli.server_process import free_port
from tests.end_to_end.listening import RDL, Listener, reserve, served
from tests.end_to_end.server_process import Client, workers_of
from tests.patience import eventually


def test_three_hundred_streams_hold_no_thread_and_no_connection(tmp_path: Path) -> None:
    """All hear of a commit, with as many threads as before; posts are answered alongside them.

    They are more than the connections that may be open.
    """
    few = {"connections": 8, "per_address": 8}
    with served(tmp_path, streams=300, **few) as server, ExitStack() as stack:
        client = Client(server.port)
        reserve(client, "first")
        (worker,) = workers_of(server.process.pid)
        listeners = []
        for _ in range(300):
            listener = stack.enter_context(Listener(server.port, "kinds=accepted"))
            assert listener.head().startswith(b"HTTP/1.1 200")
            assert listener.next_event()[0] == "start"
            listeners.append(listener)
        with Listener(server.port) as late:
            assert late.head().startswith(b"HTTP/1.1 429")
        assert len(os.listdir(f"/proc/{worker}/task")) < 60
        for number in range(20):
            reserve(client, f"r{number}")
        for listener in listeners:
            assert listener.ids(20) == [f"r{number}" for number in range(20)]
        listeners.pop().__exit__()
        listeners.pop().__exit__()

        def again() -> bool:
            with Listener(server.port) as one:
                return one.head().startswith(b"HTTP/1.1 200")

        assert eventually(again)


def test_who_does_not_read_is_left(tmp_path: Path) -> None:
    """One that reads nothing of a long past is cut off, while another hears everything."""
    with served(tmp_path, answer_s=8.0) as server:
        client = Client(server.port)
        ids = [f"r{number}" for number in range(8_000)]
        for first in range(0, len(ids), 1_000):
            batch = [{"rdl": RDL, "id": id_} for id_ in ids[first : first + 1_000]]
            assert client.call("POST", "/v1/reservations:batch", batch)[0] == 200
        with Listener(server.port, "after=0") as slow, Listener(server.port, "after=0") as quick:
            assert quick.head()
            assert quick.ids(len(ids)) == ids
            log = tmp_path / "cluster.log"
            assert eventually(lambda: "did not read its stream" in log.read_text())
            assert slow.is_over()
            reserve(client, "after")
            assert quick.ids(1) == ["after"]


def test_a_stream_goes_on_after_a_restart(tmp_path: Path) -> None:
    """With its last id a client hears the rest once, however the server ended.

    Streams hold up no shutdown: one that ends in order ends them.
    """
    port = free_port()
    heard: list[str] = []
    last: str | None = None
    for first, how in enumerate((signal.SIGTERM, signal.SIGKILL)):
        with served(tmp_path, port=port) as server:
            client = Client(port)
            with Listener(port, "kinds=accepted", last) as listener:
                listener.head()
                for number in range(5):
                    reserve(client, f"r{5 * first + number}")
                heard += listener.ids(3 if last is None else 5)
                last = listener.last
                if how == signal.SIGTERM:
                    server.process.terminate()
                else:
                    os.killpg(server.process.pid, how)
                assert listener.is_over()
            code = server.process.wait(300)
            assert code == (0 if how == signal.SIGTERM else -how)
    with served(tmp_path, port=port):
        reserve(Client(port), "r10")
        with Listener(port, "kinds=accepted", last) as listener:
            listener.head()
            heard += listener.ids(3)
    assert heard == [f"r{number}" for number in range(11)]


def test_both_workers_tell_what_either_commits(tmp_path: Path) -> None:
    """Whichever worker a stream is at, it hears all commits in order, and the ids are equal."""
    with served(tmp_path, workers=2) as server, ExitStack() as stack:
        listeners = [stack.enter_context(Listener(server.port)) for _ in range(12)]
        for listener in listeners:
            listener.head()
            listener.next_event()
        for number in range(10):
            reserve(Client(server.port), f"r{number}")
        for listener in listeners:
            assert listener.ids(10) == [f"r{number}" for number in range(10)]
        assert len({listener.last for listener in listeners}) == 1

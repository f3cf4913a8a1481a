"""Answered 201 = on disk: a server killed in the middle of a stream of posts loses nothing."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.cli.server_process import ServerProcess
from tests.databases import KINDS, empty_database
from tests.end_to_end.served_plan import CLUSTER, everything, violations
from tests.end_to_end.server_process import Client, serving
from tests.examples import some_of
from tests.patience import eventually

CLIENTS = 6
ROUNDS = 2
ANSWERS_BEFORE_THE_KILL = 60


class Poster(threading.Thread):
    """Posts one reservation after the other until the connection breaks."""

    def __init__(self, server: ServerProcess, number: int, first: int) -> None:
        super().__init__()
        self.client = Client(server.port)
        self.number = number
        self.turn = first
        self.granted: dict[str, Any] = {}
        self.keys: list[tuple[str, dict[str, Any]]] = []

    def run(self) -> None:
        """Post; what is answered 201 is kept, the last key and body too."""
        while True:
            start = (self.turn * 37 + self.number * 11) % 1200
            rdl = f"window(atom(<1 cpu, 1 GiB memory>, 1, 4, 600, 2400), +{start}m, +{start + 90}m)"
            body = {"rdl": rdl, "tenant": f"t{self.number}"}
            key = f"key-{self.number}-{self.turn}"
            self.keys.append((key, body))
            try:
                status, answer = self.client.call(
                    "POST", "/v1/reservations", body, {"Idempotency-Key": key}
                )
            except (OSError, http.client.HTTPException):
                return
            if status == 201:
                self.granted[answer["id"]] = answer
            self.turn += 1


Opened = Callable[[], AbstractContextManager[ServerProcess]]


def answered(posters: list[Poster]) -> int:
    """Return how many 201 all of them have seen."""
    return sum(len(poster.granted) for poster in posters)


def killed_while_posting(opened: Opened) -> tuple[dict[str, Any], list[Poster]]:
    """Kill servers in the middle of posts; return what was answered 201, and the last posters."""
    granted: dict[str, Any] = {}
    turns = [0] * CLIENTS
    posters: list[Poster] = []
    for _ in range(ROUNDS):
        with opened() as server:
            posters = [Poster(server, number, turns[number]) for number in range(CLIENTS)]
            for poster in posters:
                poster.start()
            eventually(partial(answered, posters), ANSWERS_BEFORE_THE_KILL.__le__, pause_s=0.002)
            server.kill()
            for poster in posters:
                poster.join()
        for number, poster in enumerate(posters):
            granted |= poster.granted
            turns[number] = poster.turn + 1
    assert len(granted) >= ROUNDS * ANSWERS_BEFORE_THE_KILL
    return granted, posters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "snapshot_every"), some_of([(2, 25), (1, 10_000)], 1))
def test_kill_loses_and_repeats_nothing(
    tmp_path: Path, kind: str, workers: int, snapshot_every: int
) -> None:
    """Every 201 given before SIGKILL is there once after the restart, and the Plan is valid."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    with empty_database(kind, tmp_path) as database:
        opened = partial(serving, database, cluster, workers=workers, snapshot_every=snapshot_every)
        granted, posters = killed_while_posting(opened)
        with opened() as server:
            all_is_there_once(server, granted, posters)
            assert server.stop()


def all_is_there_once(
    server: ServerProcess, granted: dict[str, Any], posters: list[Poster]
) -> None:
    """Hold what a server has against what was answered before it."""
    client = Client(server.port)
    kept = [entry for entry in everything(client) if entry["state"] != "refused"]
    by_id = {entry["id"]: entry for entry in kept}
    assert len(by_id) == len(kept)
    for id_, answer in granted.items():
        assert by_id[id_]["atoms"] == answer["atoms"]
    # At most the one request of each client that was under way in each round is there too.
    assert len(kept) <= len(granted) + ROUNDS * CLIENTS
    for poster in posters:
        key, body = poster.keys[-1]
        statuses = [
            client.call("POST", "/v1/reservations", body, {"Idempotency-Key": key})
            for _ in range(2)
        ]
        assert statuses[0] == statuses[1]
    assert violations(client) == []

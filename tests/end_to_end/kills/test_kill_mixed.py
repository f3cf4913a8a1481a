"""Kills of workers, masters and all in mixed load: a few always, by the hundred in the soak."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service.cli.client.server_process import free_port
from tests.databases import KINDS, empty_database
from tests.end_to_end.kills.kill_clients import Gate, KillClient, Known
from tests.end_to_end.kills.kill_rounds import KillRound, Opened, random_targets
from tests.end_to_end.served_plan import CLUSTER
from tests.end_to_end.server_process import serving

#: What is killed in the test that is always run.
FEW = ("worker", "worker", "master", "workers", "worker")

#: Kills on each database, and in one round: each round begins with an empty one.
KILLS = int(os.environ.get("AGENDA_SOAK_KILLS", "1000"))
KILLS_OF_A_ROUND = 125

#: Seconds for each database; fewer kills are made where they take longer.
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "3600"))

#: What is loaded before workers are forked, so that a new one serves at once; and the log is pruned
#: up to the snapshot, where what is late is lost if anywhere.
PREPARED = (
    "import service.app, service.store.store as log; "
    "from planner.workload.warm_up import load_kernels; load_kernels(); log.KEPT_BEHIND = 0; "
)


@contextmanager
def servers(kind: str, folder: Path, workers: int) -> Iterator[Opened]:
    """Yield what opens servers on a database that is empty at first."""
    folder.mkdir()
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    with empty_database(kind, folder) as database:
        yield lambda port: serving(
            database, cluster, workers=workers, snapshot_every=25, port=port, prepared=PREPARED
        )


@pytest.mark.parametrize("kind", KINDS)
def test_kills_in_mixed_load_lose_and_repeat_nothing(tmp_path: Path, kind: str) -> None:
    """Whatever is killed, every answer holds: promised once, ended once, told again the same."""
    with servers(kind, tmp_path / "few", workers=2) as opened:
        found = KillRound(opened, free_port(), seed=1).run(FEW)

    assert found.faults == []
    assert found.kills == Counter(FEW)


@pytest.mark.parametrize(
    ("states", "shown", "faults"),
    [
        ({"accepted"}, {"state": "accepted", "atoms": ["as promised"]}, 0),
        ({"accepted"}, {"state": "accepted", "atoms": ["another"]}, 1),
        ({"accepted"}, {"state": "completed", "atoms": ["as promised"]}, 1),
        ({"accepted"}, None, 1),
        ({"accepted", "completed"}, {"state": "completed", "atoms": []}, 0),
        ({"accepted", "completed"}, {"state": "cancelled", "atoms": []}, 1),
        ({"absent", "accepted"}, None, 0),
    ],
)
def test_what_cannot_be_is_noticed(
    states: set[str], shown: dict[str, Any] | None, faults: int
) -> None:
    """A client holds what it is shown against what it was told, and knows what is open."""
    client = KillClient(1, 0, 0, Gate())
    client.known["a"] = Known(["as promised"], states)

    client.hold("a", shown)

    assert len(client.faults) == faults


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_lose_and_repeat_nothing(tmp_path: Path, kind: str) -> None:
    """The same by the hundred, on a database after the other, from a seed that is told."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    until, made, number = time.monotonic() + SECONDS, 0, 0
    while made < KILLS and time.monotonic() < until:
        kills = min(KILLS_OF_A_ROUND, KILLS - made)
        targets = random_targets(seed + number, kills)
        with servers(kind, tmp_path / str(number), workers=1 + number % 2) as opened:
            found = KillRound(opened, free_port(), seed + number).run(targets, until)
        made, number = made + found.kills.total(), number + 1
        print(f"{kind}: {made} kills, round of seed {seed + number - 1}: {found}", flush=True)
        assert found.faults == []

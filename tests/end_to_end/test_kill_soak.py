"""Kills by the hundred, of workers, masters and all, in mixed load with frequent snapshots."""

from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path

import pytest

from tests.databases import KINDS, empty_database
from tests.end_to_end.kill_rounds import Killed, KillRound
from tests.end_to_end.server_process import free_port, serving
from tests.end_to_end.test_kill import CLUSTER

#: Kills on each database, and in one round: each round begins with an empty one.
KILLS = int(os.environ.get("AGENDA_SOAK_KILLS", "1000"))
KILLS_OF_A_ROUND = 125

#: Seconds for each database; fewer kills are made where they take longer.
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "3600"))

#: What is loaded before workers are forked, so that a new one serves at once; and the log is pruned
#: up to the snapshot, where what is late is lost if anywhere.
PREPARED = (
    "import service.app, service.store.log as log; "
    "from planner.readiness import load_kernels; load_kernels(); log.KEPT_BEHIND = 0; "
)


def killed(kind: str, folder: Path, workers: int, seed: int, kills: int, until: float) -> Killed:
    """Return what was found in one round."""
    folder.mkdir()
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    with empty_database(kind, folder) as database:
        opened = partial(
            serving, database, cluster, workers=workers, snapshot_every=25, prepared=PREPARED
        )
        return KillRound(lambda port: opened(port=port), free_port(), seed).run(kills, until)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_lose_and_repeat_nothing(tmp_path: Path, kind: str) -> None:
    """Whatever is killed, every answer holds: promised once, ended once, told again the same."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    until, made, number = time.monotonic() + SECONDS, 0, 0
    while made < KILLS and time.monotonic() < until:
        kills = min(KILLS_OF_A_ROUND, KILLS - made)
        found = killed(kind, tmp_path / str(number), 1 + number % 2, seed + number, kills, until)
        made, number = made + found.kills.total(), number + 1
        print(f"{kind}: {made} kills, round of seed {seed + number - 1}: {found}", flush=True)
        assert found.faults == []

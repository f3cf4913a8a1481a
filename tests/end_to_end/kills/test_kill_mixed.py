"""Kills of processes, leaders and databases in mixed load: a few always, hundreds in the soak."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from service.cli.server_process import free_port
from tests.databases import KINDS
from tests.end_to_end.kills.kill_clients import Gate, KillClient, Known
from tests.end_to_end.kills.kill_rounds import KillRound, random_targets
from tests.end_to_end.kills.kill_stage import stage_of

#: What is killed in the test that is always run.
FEW = ("worker", "leader", "master", "hang", "workers", "worker")

#: Kills on each database, and in one round: each round begins with an empty one.
KILLS = int(os.environ.get("AGENDA_SOAK_KILLS", "1000"))
KILLS_OF_A_ROUND = 125

#: Seconds for each database; fewer kills are made where they take longer.
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "3600"))


@pytest.mark.parametrize("kind", KINDS)
def test_kills_in_mixed_load_lose_and_repeat_nothing(tmp_path: Path, kind: str) -> None:
    """Whatever is killed, every answer holds: promised once, ended once, told again the same."""
    few = (*FEW, "database", "worker") if kind == "postgresql" else FEW
    with stage_of(kind, tmp_path / "few", workers=2) as stage:
        found = KillRound(stage, free_port(), seed=1).run(few)

    assert found.faults == []
    assert found.kills == Counter(few)


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
    """A client holds what it is shown against what was sent to it, and knows what is open."""
    client = KillClient(1, 0, 0, Gate())
    client.known["a"] = Known(["as promised"], states)

    client.hold("a", shown)

    assert len(client.faults) == faults


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_lose_and_repeat_nothing(tmp_path: Path, kind: str) -> None:
    """The same by the hundred, on a database after the other, from a seed that is reported."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    until, made, number = time.monotonic() + SECONDS, 0, 0
    while made < KILLS and time.monotonic() < until:
        kills = min(KILLS_OF_A_ROUND, KILLS - made)
        targets = random_targets(seed + number, kills, database=kind == "postgresql")
        with stage_of(kind, tmp_path / str(number), workers=1 + number % 2) as stage:
            found = KillRound(stage, free_port(), seed + number).run(targets, until)
        made, number = made + found.kills.total(), number + 1
        print(f"{kind}: {made} kills, round of seed {seed + number - 1}: {found}", flush=True)
        assert found.faults == []

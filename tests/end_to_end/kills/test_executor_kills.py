"""kill -9 of executors and of the server, in any order: no work is lost and none runs twice."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.lab import LONG_S, Lab, end
from tests.patience import eventually

#: What is killed in the test that is always run.
FEW = ("one", "server", "two", "one")

KILLS = int(os.environ.get("AGENDA_SOAK_KILLS", "200"))

#: Seconds after which no round begins any more.
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "3600"))

#: Kills of a round: each begins with an empty database.
KILLS_OF_A_ROUND = 20

#: Writes when it begins and ends, in one write each; a gang of two that is stopped is not over.
COMMAND = (
    'note() {{ echo "$1 $(date +%s%N) $AGENDA_RUN $AGENDA_APPLICATION $AGENDA_INDEX" >> {0}; }}; '
    "note begin; sleep {1}; note end"
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what ends everything that a round has begun."""
    with ExitStack() as found:
        yield found


def play(folder: Path, stack: ExitStack, killed: Sequence[str], seed: int) -> tuple[Lab, list[str]]:
    """Submit gangs while something is killed and started again; return the lab and their ids."""
    rng = random.Random(seed)
    folder.mkdir()
    lab = Lab(folder, stack)
    lab.serve(LONG_S)
    machines = {"one": "lab-0", "two": "lab-1"}
    executors: dict[str, subprocess.Popen[bytes]] = {
        name: lab.execute(machine, name=name) for name, machine in machines.items()
    }
    ids: list[str] = []
    for target in killed:
        for _ in range(2):
            command = COMMAND.format(lab.notes, rng.choice([0.1, 0.5, 2]))
            ids.append(lab.submit(command, component={"count": 2}))
        time.sleep(rng.uniform(0, 1.5))
        if target == "server":
            assert lab.server is not None
            lab.server.kill()
            lab.serve(LONG_S)
        else:
            end(executors[target])
            time.sleep(rng.uniform(0, 0.5))
            executors[target] = lab.execute(machines[target], name=target)
    for id_ in ids:
        eventually(lambda id_=id_: lab.state(id_) == "completed")  # type: ignore[misc]
    return lab, ids


def faults_of(lines: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Return what must not be in the notes of gangs of two that have all completed."""
    faults: list[str] = []
    begun: dict[str, int] = defaultdict(int)
    spans: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for line in lines:
        what, at, run, application, index = line.split()
        begun[run] += what == "begin"
        spans[application, index].append((int(at), what))
    faults += [f"run {run} began {count} times" for run, count in begun.items() if count != 1]
    for id_ in ids:
        for index in ("0", "1"):
            steps = [what for _, what in sorted(spans[id_, index])]
            if steps != ["begin", "end"]:
                faults.append(f"component {index} of {id_}: {steps}")
    return faults


def test_kills_lose_and_repeat_no_work(tmp_path: Path, stack: ExitStack) -> None:
    """Within the lease every component begins once and ends once, whatever is killed."""
    lab, ids = play(tmp_path / "few", stack, FEW, seed=1)

    assert faults_of(lab.lines(), ids) == [], lab.story(ids)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["begin 1 r x 0", "end 2 r x 0", "begin 1 s x 1", "end 2 s x 1"], 0),
        (["begin 1 r x 0", "begin 2 r x 0", "end 3 r x 0", "begin 1 s x 1", "end 2 s x 1"], 2),
        (["begin 1 r x 0", "end 2 r x 0", "begin 1 s x 1"], 1),
        (["begin 1 r x 0", "begin 2 q x 0", "end 3 r x 0", "begin 1 s x 1", "end 2 s x 1"], 1),
    ],
)
def test_what_runs_twice_or_not_to_its_end_is_noticed(lines: list[str], count: int) -> None:
    """The judge of this file can find something."""
    assert len(faults_of(lines, ["x"])) == count


@pytest.mark.soak
def test_hundreds_of_kills_lose_and_repeat_no_work(tmp_path: Path) -> None:
    """The same at random, from a seed that is reported."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    until = time.monotonic() + SECONDS
    for number in range(-(-KILLS // KILLS_OF_A_ROUND)):
        if time.monotonic() >= until:
            break
        rng = random.Random(seed + number)
        killed = rng.choices(["one", "two", "server"], [3, 3, 1], k=KILLS_OF_A_ROUND)
        with ExitStack() as stack:
            lab, ids = play(tmp_path / str(number), stack, killed, seed + number)
            found = faults_of(lab.lines(), ids)
            story = lab.story(ids) if found else ""
        print(f"{KILLS_OF_A_ROUND} kills, round of seed {seed + number}: {found}", flush=True)
        assert found == [], story

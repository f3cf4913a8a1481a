"""What is loaded before the first answer, seen in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from service.commits.answers import seconds_of_search
from tests.examples import some_of
from tests.service.conftest import CLUSTER, Open
from tests.service.together import solver

#: Opens a service, makes its first refusal, and prints what that loaded, and its offers.
_FIRST_REFUSAL = """
import gc, json, sys
from pathlib import Path
import service.runtime
from numba.core.dispatcher import Dispatcher
from service.app import create_app
from service.clock import ManualClock
from service.config import ServiceConfig
from service.runtime import open_runtime

service.runtime.load_beside = lambda replica: None  # what is loaded later is counted here too
config = ServiceConfig(database=f"sqlite:///{sys.argv[1]}", cluster=Path(sys.argv[2]),
    agent=sys.argv[3], tick_s=0, offer_s=60.0, replay_wait_s=600.0, agent_s=1.0)
runtime = open_runtime(config, ManualClock())
runtime.wait_ready(600)
client = create_app(config, runtime).test_client()
client.get("/v1/plan")

def loaded():
    kernels = {id(one): (one.__name__, len(one.overloads)) for one in gc.get_objects()
               if isinstance(one, Dispatcher)}
    own = {name for name in sys.modules if name.split(".")[0] in ("planner", "rdl", "dispatch")}
    return own, kernels

modules, kernels = loaded()
too_much = "window(atom(<1 cpu>, 11, 11, 60, 660), +10m, +20m)"
answer = client.post("/v1/reservations", json={"rdl": too_much, "queue": sys.argv[4]})
modules_after, kernels_after = loaded()
print(json.dumps({
    "status": answer.status_code,
    "offers": len(answer.get_json()["refusal"]["offers"]),
    "modules": sorted(modules_after - modules),
    "kernels": sorted(name for key, (name, count) in kernels_after.items()
                      if count > kernels.get(key, (name, 0))[1]),
}))
runtime.close()
"""


_QUEUES = """
[[queues]]
name = "default"
reservable = false

[[queues]]
name = "batch"
"""


@pytest.mark.parametrize(
    ("agent", "queues", "queue"),
    some_of([("gree", _QUEUES, "batch"), ("gree-l", "", "default")], 1),
)
def test_the_first_refusal_loads_nothing_and_has_offers(
    tmp_path: Path, agent: str, queues: str, queue: str
) -> None:
    """A server that is ready has loaded all that a refusal with offers needs, for its agent."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER + queues)
    arguments = [str(tmp_path / "agenda.db"), str(cluster), agent, queue]
    run = subprocess.run(
        [sys.executable, "-c", _FIRST_REFUSAL, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout.splitlines()[-1])

    assert seen["status"] == 409
    assert seen["offers"] > 0
    assert (seen["modules"], seen["kernels"]) == ([], [])


def test_a_long_placement_leaves_a_search_its_time(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a solver took to refuse is not taken from the search for offers."""
    service = open_service(offer_s=1.0)
    times = [0.0]
    monkeypatch.setattr("service.commits.answers.time.perf_counter", lambda: times[0])
    solver(monkeypatch, lambda: times.__setitem__(0, 100.0))
    too_much = "window(atom(<1 cpu>, 11, 11, 60, 660), +10m, +20m)"
    answer = service.ask("a", too_much, agent="exact")

    assert answer.status_code == 409
    assert answer.get_json()["refusal"]["offers"]


def test_a_first_trial_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the first trial loads, the time of the search begins after it."""
    times = [0.0]
    monkeypatch.setattr("service.commits.answers.time.perf_counter", lambda: times[0])
    stop = seconds_of_search(1.0)

    assert not stop()
    times[0] = 50.0
    assert not stop()
    times[0] = 50.9
    assert not stop()
    times[0] = 51.0
    assert stop()

"""Work that really runs: processes of this machine, under a reservation, on the racks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from service.cli.client.demo.serving import Rack
from service.cli.client.demo.stage import DemoStage

_PROCESSES: Final = 4
_RANGE: Final = 20_000

#: Most processes that go on after the scenes, and how much longer their reservations last at least.
_RUN_ON: Final = 40
_WHILE_S: Final = 1800.0

#: Most processes of one reservation among them.
_OF_ONE: Final = 12

#: Counts the primes of its share of the numbers, a tenth of them at a time.
_COMMAND: Final = f"""\
n=0
for tenth in 0 1 2 3 4 5 6 7 8 9; do
  from=$((AGENDA_INDEX * {_RANGE} + tenth * {_RANGE // 10}))
  found=$(awk -v from=$from -v to=$((from + {_RANGE // 10})) 'BEGIN {{
    for (n = from < 2 ? 2 : from; n < to; n++) {{
      prime = 1
      for (d = 2; d * d <= n; d++) if (n % d == 0) {{ prime = 0; break }}
      count += prime
    }}
    print count + 0 }}')
  n=$((n + found))
  sleep 0.2
done
echo $n"""


@dataclass(frozen=True, slots=True)
class Work:
    """An application that was submitted.

    Attributes
    ----------
    id
        Of the application, and of its reservation.
    rack
        On which its processes run.
    """

    id: str
    rack: Rack


def begin_work(stage: DemoStage, id_: str) -> Work:
    """Reserve four cores, submit four processes under the reservation, and see them run."""
    atom = f"atom(<1 cpu, 1 GiB memory>, {_PROCESSES}, {_PROCESSES}, 80m, {80 * _PROCESSES}m)"
    rdl = f"window({atom}, +5m, +2h)"
    # Above the day's, so that it finds other machines first when its rack is lost.
    body = {"id": id_, "tenant": "you", "queue": "batch", "rdl": rdl, "priority": 1}
    promised = stage.post("/v1/reservations", body)
    stage.tell(f"you reserve {_PROCESSES} cores as {id_}: promised from "
               f"{promised['begin_at'][11:16]} to {promised['finish_at'][11:16]}")  # fmt: skip
    stage.post("/v1/applications", _application(id_))
    runs = stage.seen(f"the processes of {id_}", lambda: _running(stage, id_))
    machines = sorted({run["machine"] for run in runs})
    stage.tell(f"{len(runs)} processes count primes, on {', '.join(machines)}: real ones, "
               "started by an executor of this machine")  # fmt: skip
    return Work(id_, stage.rack_of(machines[0]))


def end_work(stage: DemoStage, work: Work) -> None:
    """Wait until the work is done, and say what it found."""
    stage.seen(f"the end of {work.id}", lambda: _is_over(stage, work.id))
    # Where the application began anew, the last exit of each process is that of this time.
    ended = {run["index"]: run for run in _runs(stage, work.id) if run["state"] == "exited"}
    texts = [stage.rack_of(run["machine"]).written(run["id"]) for run in ended.values()]
    found, below = sum(map(_number, texts)), _PROCESSES * _RANGE
    stage.tell(f"{work.id} is done: {found:,} primes below {below:,}; "
               "the rest of its reservation is given back")  # fmt: skip


def work_on(stage: DemoStage) -> None:
    """Let reservations that hold machines now have work that runs until they end."""
    now_s = stage.clock.since_midnight_s()
    held = stage.server.list_all(
        "/v1/reservations", "reservations", {"from": now_s, "to": now_s + 1.0}
    )
    # Those with the largest bundles: as much is taken as so few processes can take.
    parts = sorted(
        ((entry, atom, bundles) for entry in held for atom, bundles in _parts(entry, now_s)),
        key=lambda one: (-one[1]["bundle"].get("cpu", 0), one[0]["id"]),
    )
    left, works = _RUN_ON, 0
    for entry, atom, bundles in parts:
        count = min(bundles, left, _OF_ONE)
        if not count:
            break
        id_ = f"{entry['id']}-work-{works}"
        reply = stage.server.call("POST", "/v1/applications", _work_of(id_, entry, atom, count))
        if reply.ok:  # it may have lost what it held since the list was made
            left, works = left - count, works + 1
    stage.tell(f"{works} reservations of the day have work: {_RUN_ON - left} processes, which run "
               "on; the day passes as fast as yours from now on")  # fmt: skip


def _parts(entry: dict[str, Any], now_s: float) -> list[tuple[dict[str, Any], int]]:
    """Return which atoms of a reservation hold how many bundles now and for a while yet."""
    return [
        (atom, bundles)
        for atom in entry.get("atoms", ())
        for start, end, bundles in atom["allocation"]
        if start <= now_s and end - now_s >= _WHILE_S
    ]


def _work_of(id_: str, entry: dict[str, Any], atom: dict[str, Any], count: int) -> dict[str, Any]:
    worker = {
        "name": "worker", "count": count, "core": True, "command": "exec sleep 86400",
        "resources": atom["bundle"],
    }  # fmt: skip
    application = {
        "name": "worker", "size": "30m", "reservation": entry["id"], "components": [worker],
    }  # fmt: skip
    return {"id": id_, "tenant": entry["tenant"], "application": application}


def _application(id_: str) -> dict[str, Any]:
    counter = {
        "name": "counter", "count": _PROCESSES, "core": True, "command": _COMMAND,
        "resources": {"cpu": 1, "memory": "1 GiB"},
    }  # fmt: skip
    application = {"name": "primes", "size": "1h", "reservation": id_, "components": [counter]}
    return {"id": id_, "tenant": "you", "close_on_end": True, "application": application}


def _runs(stage: DemoStage, id_: str) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = stage.get(f"/v1/applications/{id_}/runs")["runs"]
    return runs


def _running(stage: DemoStage, id_: str) -> list[dict[str, Any]] | None:
    """Return the runs where all of them run, else None."""
    found = [run for run in _runs(stage, id_) if run["state"] == "running"]
    return found if len(found) == _PROCESSES else None


def _is_over(stage: DemoStage, id_: str) -> bool:
    state: str = stage.get(f"/v1/applications/{id_}")["state"]
    return state == "completed"


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0

"""The work of the demo: processes that count primes, work for the day, and a pipeline by night."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agenda.jobs import OVER
from service.cli.demo_stage import DemoStage, Rack
from service.example_day import write_nightly

_PROCESSES: Final = 4
_RANGE: Final = 20_000

#: The most processes that continue after the scenes, and the shortest time left of their
#: reservations.
_RUN_ON: Final = 40
_WHILE_S: Final = 1800.0

#: The most of these processes for one reservation.
_OF_ONE: Final = 12

#: Counts the primes in this process's share of the numbers, a tenth of them at a time.
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
        The id of the application and of its reservation.
    rack
        The rack on which its processes run.
    """

    id: str
    rack: Rack


def begin_work(stage: DemoStage, id_: str) -> Work:
    """Reserve four cores, submit four processes under the reservation, and wait until they run."""
    atom = f"atom(<1 cpu, 1 GiB memory>, {_PROCESSES}, {_PROCESSES}, 80m, {80 * _PROCESSES}m)"
    rdl = f"window({atom}, +5m, +2h)"
    # Above the day's priorities, so that it is moved to other machines first if its rack is lost.
    body = {"id": id_, "tenant": "you", "queue": "batch", "rdl": rdl, "priority": 1}
    promised = stage.post("/v1/reservations", body)
    stage.tell(f"you reserve {_PROCESSES} cores as {id_}: promised from "
               f"{promised['begin_at'][11:16]} to {promised['finish_at'][11:16]}")  # fmt: skip
    stage.post("/v1/applications", _application(id_))
    runs = stage.seen(f"the processes of {id_}", lambda: _running(stage, id_, _PROCESSES))
    stage.tell(f"{len(runs)} processes count primes, on {_machines(runs)}: real ones, "
               "of this host")  # fmt: skip
    return Work(id_, Rack.of(min(run["machine"] for run in runs)))


def end_work(stage: DemoStage, work: Work) -> None:
    """Wait until the work is done, and print its result."""
    _await_end(stage, work.id)
    texts = stage.seen(f"the output of {work.id}", lambda: _results(stage, work.id))
    found, below = sum(map(int, texts)), _PROCESSES * _RANGE
    stage.tell(f"{work.id} is done: {found:,} primes below {below:,}; "
               "the rest of its reservation is released")  # fmt: skip


def work_on(stage: DemoStage) -> None:
    """Submit work for reservations that hold machines now; it runs until they end."""
    now_s = stage.clock.since_midnight_s()
    held = stage.server.list_all(
        "/v1/reservations", "reservations", {"from": now_s, "to": now_s + 1.0}
    )
    # The largest bundles first, so that few processes use as much capacity as possible.
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
        if reply.ok:  # the reservation may have lost its machines since the list was made
            left, works = left - count, works + 1
    stage.tell(f"{works} reservations of the day have work: {_RUN_ON - left} processes, which run "
               "on; the day passes as fast as yours from now on")  # fmt: skip


def _parts(entry: dict[str, Any], now_s: float) -> list[tuple[dict[str, Any], int]]:
    """Return the atoms of a reservation that hold bundles now and for a while, with counts."""
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


def _running(stage: DemoStage, id_: str, count: int) -> list[dict[str, Any]] | None:
    """Return the runs of an application if so many are running, else None."""
    found = [run for run in _runs(stage, id_) if run["state"] == "running"]
    return found if len(found) == count else None


def _machines(runs: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({run["machine"] for run in runs}))


def _results(stage: DemoStage, id_: str) -> list[str] | None:
    """Return what each process wrote, if the server has all of it, else None.

    If the application was restarted, the last exit of each process counts.
    """
    logs = stage.get(f"/v1/applications/{id_}/logs", stream="stdout")["logs"]
    found = {log["index"]: log["text"] for log in logs if log["state"] == "exited"}
    return list(found.values()) if len(found) == _PROCESSES else None


#: The nights of the pipeline: in the last one a machine is lost.
_NIGHTS: Final = 3

_NIGHTLY: Final = "/v1/pipelines/nightly"


def play_nights(stage: DemoStage) -> None:
    """Run a pipeline for three nights: a task fails in the second, a machine in the third."""
    data = stage.folder / "nightly"
    data.mkdir(exist_ok=True)
    file = write_nightly(stage.folder, data)
    stage.clock.go(1.0)
    made = stage.post("/v1/pipelines", tomllib.loads(file.read_text(encoding="utf-8")))
    names = [one["name"] for one in made["stages"]]
    stage.tell(f"you run {file.name}, a pipeline of {', '.join(names)}, for {_NIGHTS} nights "
               "(an hour apart here): promised")  # fmt: skip
    for night in range(_NIGHTS):
        stage.clock.skip_to(stage.get(_NIGHTLY)["next_at"])
        _play_night(stage, night, data)
    stage.tell(f"what they wrote: {stage.server.url}/ui/pipelines/nightly")


def _play_night(stage: DemoStage, night: int, data: Path) -> None:
    """Let the input of a night come, move the clock from stage to stage, and report the outcome."""
    run = stage.seen(f"night {night + 1}", lambda: _night(stage, night))
    if night == _NIGHTS - 1:
        _lose_a_machine(stage, f"nightly.extract@{night}")
    (data / f"input-{night}").touch()
    for place, one in enumerate(run["stages"]):
        run = stage.seen(f"night {night + 1}", lambda: _night(stage, night))
        start_at = run["stages"][place]["start_at"]  # the loss may have moved it
        if start_at is not None:  # else its reservation holds nothing
            stage.clock.skip_to(start_at)
        _await_end(stage, one["application"])
    _report_night(stage, night)


def _await_end(stage: DemoStage, id_: str) -> None:
    stage.seen(f"the end of {id_}", lambda: stage.get(f"/v1/applications/{id_}")["state"] in OVER)


def _lose_a_machine(stage: DemoStage, id_: str) -> None:
    """Lose a machine on which an application of two processes runs, and wait for its restart."""
    runs = stage.seen(f"the processes of {id_}", lambda: _running(stage, id_, 2))
    lost: str = runs[0]["machine"]
    stage.lose(lost.rpartition("-")[0], [lost], "its disk has failed")
    found = stage.seen(f"{id_} elsewhere", lambda: _running_without(stage, id_, lost))
    stage.tell(f"{lost} is lost while {id_} runs on it; it runs again, on {_machines(found)}")


def _running_without(stage: DemoStage, id_: str, lost: str) -> list[dict[str, Any]] | None:
    runs = _running(stage, id_, 2) or []
    return None if any(run["machine"] == lost for run in runs) else runs


def _night(stage: DemoStage, night: int) -> dict[str, Any] | None:
    """Return the run of a night once it has begun, else None."""
    runs = stage.get(f"{_NIGHTLY}/runs", before=night + 1, limit=1)["runs"]
    return next((run for run in runs if run["run"] == night), None)


def _report_night(stage: DemoStage, night: int) -> None:
    """Print when each stage of a night ran, and whether the deadline was kept."""
    run = stage.seen(f"night {night + 1}", lambda: _night(stage, night))
    said = []
    for one in run["stages"]:
        said.append(f"{one['name']} {one['state']} {(one['ended_at'] or '')[11:16]}")
        failed = [run for run in _runs(stage, one["application"]) if run["state"] == "failed"]
        said += [f"after a failure of task {run['task']} ({run['detail']})" for run in failed]
    ended = max(one["ended_at"] or "" for one in run["stages"])
    deadline = run["deadline_at"] or ""  # not known if the run has left the Plan
    is_kept = run["state"] == "succeeded" and ended <= deadline
    stage.tell(f"night {night + 1}: {', '.join(said)}; its deadline {deadline[11:16]} "
               f"is {'kept' if is_kept else 'missed'}")  # fmt: skip

"""A rack is lost with what runs on it, promises are moved, and the rack comes back."""

from __future__ import annotations

from collections import Counter
from typing import Final

from service.cli.client.demo.serving import LEASE_S
from service.cli.client.demo.stage import DemoStage
from service.cli.client.demo.work_scene import Work, begin_work, end_work

#: What may happen to a reservation where machines go or come, as a person reads it.
_FATES: Final = {
    "relocated": "keep their times on other machines",
    "moved": "move in time",
    "degraded": "get less than was promised",
    "restored": "have all again",
    "regained": "have more again",
    "failed": "are lost",
}

#: Changes that are looked at.
_MOST: Final = 1000

#: How fast time goes while something is waited for, and afterwards.
_SLOW: Final = 30.0
_FAST: Final = 900.0


def lose_a_rack(stage: DemoStage) -> None:
    """Lose the rack that works, see promises and work move, and bring it back."""
    work = begin_work(stage, "primes-again")
    stage.clock.go(_SLOW)
    before = stage.version()
    work.rack.lose()
    stage.tell(f"{work.rack.name} ({len(work.rack.machines)} machines) falls silent; "
               f"the server waits {LEASE_S:g} s for it")  # fmt: skip
    stage.seen("the loss of a rack", lambda: _away(stage, work))
    found = stage.seen("what becomes of promises", lambda: _fates(stage, before))
    stage.tell(f"{work.rack.name} is lost: of the promises of the day {_said(found)}")
    elsewhere = stage.seen("the work elsewhere", lambda: _elsewhere(stage, work))
    stage.tell(f"{work.id} begins anew, on {elsewhere}")
    before = stage.version()
    work.rack.start()
    stage.seen("the rack's return", lambda: not _away(stage, work))
    stage.tell(f"{work.rack.name} is repaired, and its machines can be promised again")
    stage.clock.go(_FAST)
    end_work(stage, work)
    if found := _fates(stage, before):
        stage.tell(f"with the machines that are back, {_said(found)}")


def _away(stage: DemoStage, work: Work) -> bool:
    """Return whether the Plan has machines of the work's rack as away."""
    outages = stage.get("/v1/cluster/outages")["outages"]
    names = {name for outage in outages if outage["kind"] == "loss" for name in outage["names"]}
    return bool(names.intersection(work.rack.machines))


def _elsewhere(stage: DemoStage, work: Work) -> str | None:
    """Return a machine of another rack on which the work runs, or has run already."""
    runs = stage.get(f"/v1/applications/{work.id}/runs")["runs"]
    machines = {run["machine"] for run in runs}
    return next(iter(sorted(machines.difference(work.rack.machines))), None)


def _fates(stage: DemoStage, before: int) -> Counter[str]:
    """Count what has become of reservations since a version."""
    changes = stage.get("/v1/audit", limit=_MOST)["changes"]
    newer = [one for one in changes if (one["version"] or 0) > before]
    fates = ("relocated" if one["kind"] == "relocate" else one["detail"] for one in newer)
    return Counter(fate for fate in fates if fate in _FATES)


def _said(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[fate]} {said}" for fate, said in _FATES.items() if counts[fate])

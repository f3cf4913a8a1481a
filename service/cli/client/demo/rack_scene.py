"""A rack is lost with what runs on it, promises are moved, and the rack comes back."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from service.cli.client.demo.serving import LEASE_S
from service.cli.client.demo.stage import Stage
from service.cli.client.demo.work_scene import Work, begin_work, end_work

#: What may happen to a reservation where machines go or come, as a person reads it.
_FATES: Final = ("relocated", "moved", "degraded", "restored", "regained", "failed")

_SLOW: Final = 60.0
_FAST: Final = 600.0


def lose_a_rack(stage: Stage) -> None:
    """Lose the rack that works, see promises and work move, and bring it back."""
    work = begin_work(stage, "primes-again")
    stage.clock.go(_SLOW)
    before = stage.version()
    work.rack.lose()
    stage.tell(f"{work.rack.name} ({len(work.rack.machines)} machines) falls silent; "
               f"the server waits {LEASE_S:g} s for it")  # fmt: skip
    stage.seen("the loss of a rack", lambda: _away(stage, work))
    stage.tell(f"{work.rack.name} is lost, until it reports again: {_fates(stage, before)}")
    stage.clock.go(_FAST)
    elsewhere = stage.seen("the work elsewhere", lambda: _elsewhere(stage, work))
    stage.tell(f"{work.id} begins anew, on {elsewhere}")
    before = stage.version()
    work.rack.start()
    stage.seen("the rack's return", lambda: not _away(stage, work))
    stage.tell(f"{work.rack.name} is repaired: {_fates(stage, before)}")
    end_work(stage, work)


def _away(stage: Stage, work: Work) -> bool:
    """Return whether the Plan has all machines of the work's rack as away."""
    away = [one for one in stage.get("/v1/machines")["machines"] if not one["up"]]
    names = {one["name"] for one in away}
    return bool(names.intersection(work.rack.machines))


def _elsewhere(stage: Stage, work: Work) -> str | None:
    """Return the machine on which the work runs now, where that is in another rack."""
    runs = stage.get(f"/v1/applications/{work.id}/runs")["runs"]
    machines = {run["machine"] for run in runs if run["state"] == "running"}
    return next(iter(sorted(machines.difference(work.rack.machines))), None)


def _fates(stage: Stage, before: int) -> str:
    """Say what has become of reservations since a version, by what happened to them."""
    changed = stage.get("/v1/plan/changes", since=before)
    counts = Counter(_last(one, before) for one in changed.get("reservations", []))
    said = [f"{counts[fate]} promises {fate}" for fate in _FATES if counts[fate]]
    return ", ".join(said) or "no promise had to change"


def _last(reservation: dict[str, Any], before: int) -> str:
    """Return the last thing that happened to a reservation after a version."""
    history = [one["what"] for one in reservation.get("history", []) if one["version"] > before]
    return history[-1] if history else ""

"""The scenes of the demo, in order: work, a refusal, a lost rack, a better Plan."""

from __future__ import annotations

from typing import Any, Final

from service.cli.client.demo.rack_scene import lose_a_rack
from service.cli.client.demo.stage import DemoStage
from service.cli.client.demo.work_scene import begin_work, end_work, work_on

#: How fast the day passes, seconds a second: a quarter of an hour. Afterwards it goes on as fast as
#: the reader's, so that its page is still that of a day that is under way hours later.
_SPEED: Final = 900.0
_AFTERWARDS: Final = 1.0

#: The busy hour of the day at which that begins, and how fast it is reached.
_HOUR: Final = 9.05
_ON: Final = 3600.0

#: A gang of twenty whole machines, twice as long as there is room for it before its deadline.
_WISH: Final = (
    "window(atom(<32 cpu, 64 GiB memory>, min=20, max=20, lease=2h, work=40h), +4h, +10h)"
)

#: Offers that are tried, each of the refusal before.
_TIMES: Final = 3

_OFFERS: Final = {
    "deadline": "with a later deadline",
    "start": "with an earlier start",
    "option": "of its other options",
}

#: How many changes are tried: some seconds, and the same Plan gives the same better one.
_TRIALS: Final = 150

#: What may become of a request, as a person reads it.
_FATES: Final = {
    "gained": "that were refused are promised",
    "restored": "have all again that was promised",
    "moved": "move",
}


def play_scenes(stage: DemoStage) -> None:
    """Play all scenes; the day goes on afterwards, at the speed of any day."""
    stage.clock.go(_SPEED)
    stage.tell(f"from now on the day passes {_SPEED:g} times as fast as yours")
    work = begin_work(stage, "primes")
    take_an_offer(stage)
    end_work(stage, work)
    lose_a_rack(stage)
    improve_the_plan(stage)
    stage.clock.go(_ON)
    stage.clock.wait_until(_HOUR)
    stage.clock.go(_AFTERWARDS)
    work_on(stage)


def take_an_offer(stage: DemoStage) -> None:
    """Ask for too much, say why not, and take what is offered instead."""
    body = {"id": "campaign", "tenant": "you", "queue": "batch", "rdl": _WISH}
    stage.tell("you ask for 20 whole machines for 2 h, between 4 and 10 hours from now")
    reply = stage.server.call("POST", "/v1/reservations", body)
    if reply.ok:
        stage.tell("campaign is promised")
        return
    for _ in range(_TIMES):  # the day goes on: others may take what an offer says
        stage.tell(f"refused: {reply.body['detail']}")
        offers = reply.body.get("refusal", {}).get("offers", [])
        if not offers:
            return
        stage.tell(f"offered instead, {_said(offers[0])}: {offers[0]['request']['rdl']}")
        reply = stage.server.call("POST", "/v1/reservations", offers[0]["request"])
        if reply.status < 400:  # mypy takes "ok" for what it was above
            break
    taken = reply.good()
    stage.tell(f"taken: campaign holds its machines from {_hour(taken['begin_at'])} "
               f"to {_hour(taken['finish_at'])}")  # fmt: skip


def _said(offer: dict[str, Any]) -> str:
    """Return what an offer changes, in a few words."""
    change = offer["change"]
    if change["kind"] == "size":
        return f"for {change['offered']:.0%} of the work"
    return _OFFERS.get(change["kind"], f"with another {change['kind']}")


def _hour(instant: str) -> str:
    return instant[11:16]


def improve_the_plan(stage: DemoStage) -> None:
    """Look for a Plan that also takes what was refused; apply it."""
    stage.clock.go(1.0)
    asked = {"admit_refused": True, "work": _TRIALS, "solver": "none", "frozen_until": "+10m"}
    stage.tell(f"a better Plan is looked for, in {_TRIALS} trials; nobody may lose anything by it")
    id_ = stage.post("/v1/optimizations", asked)["id"]
    job: dict[str, Any] = stage.seen("a better Plan", lambda: _ended(stage, id_))
    found = job["result"]
    counts = {} if found is None else found["diff"]["counts"]
    if not any(counts.values()):
        stage.tell("none was found")
        return
    path = f"/v1/optimizations/{id_}/apply?partial=true"
    done = stage.server.call("POST", path).good()
    told = ", ".join(f"{counts[kind]} {said}" for kind, said in _FATES.items() if counts.get(kind))
    stage.tell(f"found and applied, version {done['version']} of the Plan: {told}")


def _ended(stage: DemoStage, id_: str) -> dict[str, Any] | None:
    job: dict[str, Any] = stage.get(f"/v1/optimizations/{id_}")
    return job if job["state"] not in ("waiting", "queued", "running") else None

"""A request is refused, with the reason, and the offer that comes with the refusal is taken."""

from __future__ import annotations

from typing import Any, Final

from service.cli.client.demo.stage import DemoStage

#: A gang of twenty whole machines, twice as long as there is room for it before its deadline.
_WISH: Final = (
    "window(atom(<32 cpu, 64 GiB memory>, min=20, max=20, lease=2h, work=40h), +4h, +10h)"
)

#: Offers that are tried, each of the refusal before.
_TIMES: Final = 3

_KINDS: Final = {
    "deadline": "with a later deadline",
    "start": "with an earlier start",
    "option": "of its other options",
}


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
    return _KINDS.get(change["kind"], f"with another {change['kind']}")


def _hour(instant: str) -> str:
    return instant[11:16]

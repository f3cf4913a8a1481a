"""Each event that webhooks are for arrives at a real receiver, as it comes to be on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.webhooks.collection import USUAL_KINDS
from tests.service.applying import submit_one
from tests.service.conftest import Open, Service
from tests.service.webhooks.receiver import LOOPBACK, Receiver

#: Two machines of three processors: three bundles of two fit in total, but only two on machines.
_NARROW = """
step = "60s"
horizon = "4h"

[[machines]]
name = "narrow"
count = 2
resources = { cpu = 3 }

[promises]
level = "pooled"
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a receiver on this machine."""
    with Receiver.open() as one:
        yield one


def _told(service: Service, receiver: Receiver) -> list[tuple[str, str | None]]:
    """Look and deliver as the process that leads does each second; return what was told newly."""
    receiver.got.clear()
    runtime = service.runtime
    runtime.planner.bring_up_to_date()
    runtime.dispatcher.tick()
    runtime.webhooks.note()
    runtime.webhooks.deliver()
    runtime.webhooks.wait()
    return receiver.told()


def _open(open_service: Open, receiver: Receiver) -> Service:
    """Return a service that tells all that owners must know, which is what is told by itself."""
    service = open_service(tick_s=0, webhook_networks=LOOPBACK)
    made = service.client.post("/v1/webhooks", json={"url": receiver.url, "lead": 120})
    assert made.get_json()["kinds"] == list(USUAL_KINDS)
    return service


def _lose(service: Service, **asked: Any) -> Any:
    body = {"machines": "plain", "count": 5, **asked}
    answer = service.client.post("/v1/cluster/outages", json=body)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    return answer.get_json()["outage"]["id"]


def test_a_loss_of_machines_and_their_return(open_service: Open, receiver: Receiver) -> None:
    """`degraded` if there is no other place, `restored` with the machines; each once."""
    service = _open(open_service, receiver)
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 2h)")
    assert _told(service, receiver) == []

    outage = _lose(service, end="+2h")
    assert _told(service, receiver) == [("degraded", "a")]
    service.client.delete(f"/v1/cluster/outages/{outage}")
    assert _told(service, receiver) == [("restored", "a")]
    assert _told(service, receiver) == []


def test_a_loss_that_can_be_waited_for(open_service: Open, receiver: Receiver) -> None:
    """`moved` where there is another time."""
    service = _open(open_service, receiver)
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 600, 4800), 10m, 4h)", agent="earliest")

    _lose(service, end="+1h")

    assert _told(service, receiver) == [("moved", "a")]


def test_from_its_announcement_to_its_end(
    open_service: Open, cluster_file: Path, receiver: Receiver
) -> None:
    """`starting_soon`, `started_late` and `at_risk` where machines hold less, then `ended`."""
    cluster_file.write_text(_NARROW)
    service = _open(open_service, receiver)
    for id_, count in (("a", 2), ("b", 1)):
        rdl = f"window(atom(<2 cpu>, {count}, {count}, 600, {600 * count}), 10m, 20m)"
        service.reserve(id_, rdl)
        work = {"name": "m", "count": count, "core": True, "resources": {"cpu": 2}}
        asked = {"name": "app", "components": [work], "reservation": id_}
        assert submit_one(service, f"under-{id_}", asked).status_code == 201
    assert _told(service, receiver) == []

    service.clock.advance(500)
    assert _told(service, receiver) == [("starting_soon", "a"), ("starting_soon", "b")]
    service.clock.advance(120)
    assert _told(service, receiver) == []
    service.clock.advance(30)
    ((kind, late),) = _told(service, receiver)
    assert (kind, late in ("a", "b")) == ("started_late", True)
    assert _told(service, receiver) == []
    service.clock.advance(300)
    assert _told(service, receiver) == [("at_risk", late)]
    assert _told(service, receiver) == []
    service.clock.advance(300)
    assert sorted(_told(service, receiver)) == [("ended", "a"), ("ended", "b")]

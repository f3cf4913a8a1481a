"""A small cluster on which everything has happened: kept, degraded, refused, running, away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.end_to_end.pages.site import Site, served_site
from tests.patience import eventually

#: Machines by name; some have no free capacity for a picture of their own.
CLUSTER: Final = """
step = "60s"
horizon = "24h"

[promises]
level = "placed"

[[machines]]
name = "standard"
count = 24
resources = { cpu = 8, memory = "32 GiB" }

[[machines]]
name = "gpu"
count = 4
resources = { cpu = 16, memory = "64 GiB", gpu = 2 }
labels = ["gpu"]
"""

_HOUR: Final = 3600


def _request(id_: str, tenant: str, bundles: int, window: str, minutes: int = 60) -> dict[str, Any]:
    atom = f"atom(<2 cpu, 4 GiB memory>, {bundles}, {bundles}, {minutes}m, {bundles * minutes}m)"
    return {"id": id_, "tenant": tenant, "rdl": f"window({atom}, {window})"}


def _application(name: str, cores: int, elastic: int = 0, **more: Any) -> dict[str, Any]:
    size = {"cpu": 2, "memory": "4 GiB"}
    parts: list[dict[str, Any]] = [
        {"name": "driver", "count": cores, "core": True, "resources": size}
    ]
    if elastic:
        parts.append({"name": "worker", "count": elastic, "core": False, "resources": size})
    return {"name": name, "components": parts, **more}


@contextmanager
def busy_site(folder: Path, **settings: Any) -> Iterator[Site]:
    """Serve the cluster six hours after its origin, with three machines lost an hour ago."""
    with served_site(folder, CLUSTER, agent="gree", **settings) as site:
        _early_morning(site)
        _lost_rack(site)
        _work(site)
        # What holds nothing any more, and will not, is given up by the server in its own time.
        eventually(lambda: _state(site, "ads-now"), lambda state: state == "failed")
        site.clock.advance(60)
        yield site


def _state(site: Site, id_: str) -> str:
    state: str = site.call("GET", f"/v1/reservations/{id_}")["state"]
    return state


def _early_morning(site: Site) -> None:
    requests = [_request(f"ads-{n}", "ads", 4 + n, f"{n}h, {n + 2}h") for n in range(4)]
    requests += [_request(f"web-{n}", "web", 6, f"{n}h, {n + 3}h") for n in range(3)]
    assert set(site.ask(requests)) == {201}
    site.call("DELETE", "/v1/reservations/web-2")
    site.clock.advance(5 * _HOUR)


def _lost_rack(site: Site) -> None:
    wide = _request("ml-wide", "ml", 110, "5h, 7h", 120)
    others = [_request("ads-now", "ads", 8, "5h, 8h", 170), _request("web-now", "web", 5, "5h, 9h")]
    assert set(site.ask([wide, *others])) == {201}
    site.clock.advance(60)
    lost = {"machines": "standard", "names": [f"standard-{n}" for n in (3, 4, 5)], "end": "+4h"}
    site.call("POST", "/v1/cluster/outages", lost)
    later = {"kind": "maintenance", "machines": "gpu", "count": 1, "start": "+6h", "end": "+8h"}
    site.call("POST", "/v1/cluster/outages", later)
    site.clock.advance(_HOUR - 60)


def _work(site: Site) -> None:
    for id_, tenant, reservation, application in (
        ("crawl", "web", "web-now", _application("crawl", 2, 3)),
        ("train", "ml", "ml-wide", _application("train", 40, 30)),
        ("report", "ads", "ads-now", _application("report", 1, 4, size="20m")),
        ("stray", "ads", None, _application("stray", 2)),
        ("queued", "web", None, _application("queued", 4000 // 40)),
    ):
        body = {"id": id_, "tenant": tenant, "application": application}
        if reservation is not None:
            body["reservation"] = reservation
        site.call("POST", "/v1/applications", body)
    for _ in range(3):
        site.runtime.dispatcher.tick()
        site.clock.advance(20)

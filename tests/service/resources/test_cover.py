"""Applications under a reservation: covered, refused with what would be right, or best effort."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks_of, printed_application
from tests.patience import eventually
from tests.service.applying import an_application, shown_of, submit_one
from tests.service.conftest import CLUSTER, Open, Service

_GANG = "window(atom(<1 cpu>, 2, 2, 1m, 2m), 1m, 2m)"


def _asking(memory: str, count: int = 2, **more: Any) -> dict[str, Any]:
    asked = an_application(count, **more)
    asked["components"][0]["resources"]["memory"] = memory
    return asked


def _without_share(cluster_file: Path) -> None:
    cluster_file.write_text(CLUSTER + '\n[promises]\nlevel = "placed"\nmemory_per_cpu = "none"\n')


def test_a_bundle_without_memory_covers_an_application_with_some(still: Service) -> None:
    """Of ten machines of a core and 4 GiB: the answer shows both, and the request as written."""
    made = still.reserve("r", _GANG)
    assert made["atoms"][0]["bundle"] == {"cpu": 1, "memory": "4 GiB"}
    assert "<1 cpu, 4 GiB memory>" in made["expression"]
    assert "<1 cpu>" in made["written"]
    assert len(made["notes"]) == 1
    shown = still.client.get("/v1/reservations/r").get_json()
    assert {key: shown[key] for key in ("written", "notes", "atoms")} == {
        key: made[key] for key in ("written", "notes", "atoms")
    }
    assert submit_one(still, "a", _asking("4 GiB"), reservation="r").status_code == 201
    assert still.ask("r", _GANG).status_code == 200, "the same request again is known"


def test_a_change_and_a_refusal_show_the_request_as_written_too(still: Service) -> None:
    """The change is planned with memory; what is refused is remembered as it came."""
    still.reserve("r", _GANG)
    wider = _GANG.replace("2, 2, 1m, 2m", "3, 3, 1m, 3m")
    changed = still.client.put(
        "/v1/reservations/r", json={"rdl": wider}, headers={"If-Match": '"1"'}
    ).get_json()
    assert changed["atoms"][0]["bundle"] == {"cpu": 1, "memory": "4 GiB"}
    assert "<1 cpu>, 3, 3" in changed["written"]
    named = changed["expression"]
    same = still.client.put(
        "/v1/reservations/r", json={"rdl": named}, headers={"If-Match": '"2"'}
    ).get_json()
    assert (same["notes"], "written" in same) == ([], False)
    assert still.ask("no", "window(atom(<1 cpu>, 10, 10, 1m, 10m), 1m, 2m)").status_code == 409
    refused = still.client.get("/v1/reservations/no").get_json()
    assert "<1 cpu>, 10" in refused["written"]


def test_what_runs_is_changed_though_the_cluster_was(still: Service) -> None:
    """Machines with less memory came: the request as written still means the bundles it has."""
    made = still.reserve("r", "window(atom(<1 cpu>, 2, 2, 1m, 20m), 0, 10m)")
    cluster = still.client.get("/v1/cluster").get_json()
    small = {"name": "small", "count": 1, "resources": {"cpu": 4, "memory": "4 GiB"}}
    cluster["machines"].append(small)
    assert (
        still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    again = still.ask("r", "window(atom(<1 cpu>, 2, 2, 1m, 20m), 0, 10m)")
    assert again.status_code == 200, "the same request is known, though it would get less now"
    still.clock.advance(120)
    changed = still.client.put(
        "/v1/reservations/r",
        json={"rdl": made["written"].replace("1200", "1800").replace("600)", "900)")},
        headers={"If-Match": "*"},
    )
    assert changed.status_code == 200, changed.get_json()
    assert changed.get_json()["atoms"][0]["bundle"] == {"cpu": 1, "memory": "4 GiB"}
    new = still.reserve("new", "window(atom(<1 cpu>, 1, 1, 1m, 1m), 20m, 30m)")
    assert new["atoms"][0]["bundle"] == {"cpu": 1, "memory": "1 GiB"}


def test_what_was_added_is_said_after_the_reservation_was_moved(still: Service) -> None:
    """Its machines are down: it has others or other times, and the same notes."""
    made = still.reserve("r", "window(atom(<1 cpu>, 2, 2, 1m, 2m), 1m, 10m)")
    outage = {"machines": "plain", "count": 10, "start": made["begin"], "end": made["finish"]}
    assert still.client.post("/v1/cluster/outages", json=outage).status_code == 201
    moved = still.client.get("/v1/reservations/r").get_json()
    assert moved["revision"] > 1
    assert (moved["written"], moved["notes"]) == (made["written"], made["notes"])


def test_what_its_reservation_cannot_cover_is_refused(
    open_service: Open, cluster_file: Path
) -> None:
    """409 with the pointer of each core component, and the bundle that would be right."""
    _without_share(cluster_file)
    still = open_service(tick_s=0)
    made = still.reserve("r", _GANG)
    assert made["atoms"][0]["bundle"] == {"cpu": 1}
    assert made["written"] == _GANG
    refused = submit_one(still, "a", _asking("64 MiB"), reservation="r")
    assert (refused.status_code, refused.get_json()["code"]) == (409, "not_covered")
    (error,) = refused.get_json()["errors"]
    assert error["pointer"] == "/application/components/0"
    assert "<1 cpu, 64 MiB memory>" in error["fix"]
    assert 'cover = "none"' in error["fix"]
    assert still.client.get("/v1/applications/a").status_code == 404
    assert submit_one(still, "a", an_application(3), reservation="r").status_code == 409
    assert submit_one(still, "a", an_application(2, 9), reservation="r").status_code == 201


@pytest.mark.parametrize("inside", [True, False])
def test_cover_none_runs_as_best_effort_and_says_so(still: Service, inside: bool) -> None:
    """In the application or beside it; it starts at once and holds nothing of the reservation."""
    still.reserve("r", _GANG)
    application = _asking("4 GiB", 5, **({"cover": "none"} if inside else {}))
    more = {} if inside else {"cover": "none"}
    made = submit_one(still, "a", application, reservation="r", **more).get_json()
    assert len(made["notes"]) == 1
    assert (made["application"]["reservation"], made["application"]["cover"]) == ("r", "none")
    still.runtime.dispatcher.tick()
    still.clock.advance(61)
    still.runtime.dispatcher.tick()
    (part,) = shown_of(still, "a")["components"]
    assert (part["running"], part["covered"]) == (5, 0)
    closing = submit_one(still, "b", application, reservation="r", close_on_end=True, **more)
    assert closing.status_code == 400


def test_cover_none_counts_in_quotas_on_applications(still: Service) -> None:
    """Naming a reservation that is not used evades none of them."""
    cluster = still.client.get("/v1/cluster").get_json()
    cluster["policies"] = [{"type": "applications", "name": "one", "tenant": "*", "max_count": 1}]
    assert (
        still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    still.reserve("r", _GANG)
    codes = [
        submit_one(still, name, an_application(), reservation="r", cover=cover).status_code
        for name, cover in (("a", "none"), ("b", "none"), ("c", "reservation"))
    ]
    assert codes == [201, 409, 201]


def test_what_is_degraded_or_a_session_is_not_judged(still: Service) -> None:
    """The first holds nothing just now and may again; the second never does."""
    still.reserve("session", "void(<1 cpu>, 4)")
    assert submit_one(still, "s", _asking("1 GiB"), reservation="session").status_code == 201
    still.reserve("r", _GANG)
    outage = {"machines": "plain", "count": 10, "start": 60, "end": 120}
    assert still.client.post("/v1/cluster/outages", json=outage).status_code == 201
    assert still.client.get("/v1/reservations/r").get_json()["state"] == "degraded"
    assert submit_one(still, "a", _asking("1 GiB"), reservation="r").status_code == 201
    estimate = still.client.get("/v1/applications/a/estimate").get_json()
    assert estimate["basis"] != "reservation"


def _estimate(service: Service, id_: str) -> tuple[str, float | None]:
    found = service.client.get(f"/v1/applications/{id_}/estimate").get_json()
    return found["basis"], found["start"]


def test_an_estimate_promises_only_what_the_reservation_covers(still: Service) -> None:
    """The second application of a gang waits for the first, and a smaller promise for nothing."""
    still.reserve("r", _GANG)
    submit_one(still, "full", an_application(10, kind="interactive"))
    still.runtime.dispatcher.tick()
    for name in ("a", "b"):
        submit_one(still, name, _asking("4 GiB", kind="interactive"), reservation="r")
    assert _estimate(still, "a") == ("reservation", 60)
    assert _estimate(still, "b")[0] != "reservation"
    smaller = "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 1m, 2m), 1m, 2m)"
    changed = still.client.put(
        "/v1/reservations/r", json={"rdl": smaller}, headers={"If-Match": "*"}
    )
    assert changed.status_code == 200
    assert _estimate(still, "a")[0] != "reservation"


def _what_happened(service: Service, id_: str) -> list[str]:
    """Tick once; return what the history of a reservation says, without times."""
    service.runtime.dispatcher.tick()
    history = service.client.get(f"/v1/reservations/{id_}").get_json()["history"]
    return [entry["what"] for entry in history]


def _ticked(service: Service, count: str) -> int:
    """Tick once; return one of the counts of promises."""
    service.runtime.dispatcher.tick()
    (counts,) = service.client.get("/v1/promises").get_json()["tenants"]
    found: int = counts[count]
    return found


def test_time_that_passes_unused_is_reported(still: Service) -> None:
    """After a change to less memory: history, event, counts of promises and the metric, once."""
    submit_one(still, "fill", an_application(10, kind="interactive"))
    still.runtime.dispatcher.tick()
    still.reserve("r", _GANG)
    submit_one(still, "a", _asking("4 GiB"), reservation="r")
    smaller = "window(atom(<1 cpu, 1 GiB memory>, 2, 2, 1m, 2m), 1m, 2m)"
    still.client.put("/v1/reservations/r", json={"rdl": smaller}, headers={"If-Match": "*"})
    still.clock.advance(65)
    assert eventually(lambda: _ticked(still, "below"), (1).__eq__)
    still.clock.advance(60)
    assert eventually(lambda: _ticked(still, "unused"), (1).__eq__)
    _ticked(still, "below")
    wanted = ["admitted", "renegotiated", "unused"]
    assert eventually(lambda: _what_happened(still, "r"), wanted.__eq__)
    counts = still.client.get("/v1/promises").get_json()["tenants"][0]
    assert (counts["promised"], counts["kept"], counts["unused"]) == (1, 0, 1)
    assert "agenda_entitlements_unused_total 1.0" in still.client.get("/metrics").text


def _printed_requests() -> list[str]:
    """Return the first request of the pages that a new user reads."""
    found = []
    for page in ("api", "client", "python"):
        text = "\n".join(
            line for block in blocks_of(ROOT / "docs" / f"{page}.md") for line in block.lines
        )
        match = re.search(r"window\(atom\(<[^\"]*\)", text)
        assert match is not None
        found.append(match[0])
    return found


@pytest.mark.parametrize("request_text", _printed_requests())
def test_printed_requests_cover_the_printed_application(
    open_service: Open, cluster_file: Path, request_text: str
) -> None:
    """Each on the example cluster, with the application of docs/dispatch.md as it is there."""
    cluster_file.write_text((ROOT / "service" / "example_day" / "cluster.toml").read_text())
    still = open_service(tick_s=0)
    still.reserve("nightly", request_text, queue="batch")
    application = tomllib.loads(printed_application())
    made = submit_one(still, "a", application)
    assert made.status_code == 201, made.get_json()
    assert _estimate(still, "a")[0] == "reservation"

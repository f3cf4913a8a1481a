"""Whether a promise was kept is the same in every tool: one ledger decides it."""

from __future__ import annotations

import pytest

from bench.replay import Played, report
from dispatch.accounts.promises import outcomes_in
from service.cli.slurm import promises_of
from tests.service.cli.client.in_process_server import InProcessServer
from tests.service.conftest import Service
from tests.service.monitoring.scraped import scrape, value

HOUR = 3600


@pytest.mark.parametrize(
    ("start", "outcome"),
    [
        pytest.param(2, "kept", id="repaired before the first start"),
        pytest.param(0, "failed", id="lost while work runs short"),
    ],
)
def test_every_tool_says_the_same(still: Service, start: int, outcome: str) -> None:
    """A rack is lost after five minutes, and repaired ten later."""
    rdl = f"window(atom(<1 cpu>, 9, 9, 1h, 9h), {start}h, {start + 1}h)"
    still.reserve("c", rdl, tenant="ml")
    still.runtime.dispatcher.tick()
    still.clock.advance(300)
    lost = {"machines": "plain", "count": 5, "end": "+4h"}
    assert still.client.post("/v1/cluster/outages", json=lost).status_code == 201
    still.clock.advance(600)
    (outage,) = still.client.get("/v1/cluster").get_json()["outages"]
    assert still.client.delete(f"/v1/cluster/outages/{outage['id']}").status_code == 200
    for _ in range(4):
        still.clock.advance(HOUR)
        still.runtime.planner.bring_up_to_date()
        still.runtime.dispatcher.tick()

    kept = int(outcome == "kept")
    told = still.client.get("/v1/promises?each=true").get_json()
    counts = told["tenants"][0]
    assert (counts["promised"], counts["kept"], counts[outcome]) == (1, kept, 1)
    assert [one["promise"] for one in told["reservations"]] == [outcome]
    assert promises_of(InProcessServer(still)) == {"c": outcome}
    played = report(InProcessServer(still), Played(accepted=["c"]))
    assert (played["kept"], played["broken"]) == (kept, 1 - kept)
    samples = scrape(still)
    assert value(samples, "agenda_promises_ended_total", outcome="kept") == kept
    assert value(samples, "agenda_promises_ended_total", outcome="broken") == 1 - kept
    with still.runtime.reading() as plan:
        found = outcomes_in(plan, still.runtime.now_ms(), lambda _: 0)
    assert found == {"c": outcome}

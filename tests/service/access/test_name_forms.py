"""Names of tenants and queues that look alike are one name, through every door."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.files import cluster_from_json, read_line
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_workload
from tests.service.access.walking import guarded
from tests.service.conftest import Open

COMPOSED = unicodedata.normalize("NFC", "équipe")
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
RDL = "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 1h)"


@pytest.mark.parametrize("key", ["tenant", "queue"])
@pytest.mark.parametrize(("ruled", "asked"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_a_quota_counts_both_forms_of_a_name(key: str, ruled: str, asked: str) -> None:
    """Of four requests in two forms, a quota of two CPUs in one form admits two."""
    cluster = cluster_from_json(
        {
            "step": "1m",
            "horizon": "1h",
            "machines": [{"name": "n", "count": 20, "resources": {"cpu": 1}}],
            "queues": [{"name": "default"}, {"name": ruled}],
            "policies": [{"type": "quota", key: ruled, "limit": {"cpu": 2}}],
        }
    )
    names = (asked, asked, ruled, ruled)
    lines = [read_line({"id": f"r{n}", key: name, "rdl": RDL}) for n, name in enumerate(names)]
    work = compile_workload(lines, cluster)
    document = plan_workload(cluster, work, agent_named("gree"), Limits())
    assert len(document.reservations) == 2


def test_tokens_and_calls_know_a_tenant_in_both_forms(open_service: Open) -> None:
    """A token for one form submits under the other, and lists find it under either."""
    server = guarded(open_service, tick_s=0)
    asked = {"name": "dev", "tenants": [DECOMPOSED], "end": "+1h"}
    server.secrets["dev"] = server.call("admin", "POST", "/v1/tokens", asked).get_json()["token"]
    for name in (COMPOSED, DECOMPOSED):
        body = {"rdl": "window(atom(<1 cpu>, 1, 1, 10m, 10m), +0, +6h)", "tenant": name}
        made = server.call("dev", "POST", "/v1/reservations", body)
        assert (made.status_code, made.get_json()["tenant"]) == (201, COMPOSED)
    for name in (COMPOSED, DECOMPOSED):
        found = server.call("admin", "GET", f"/v1/reservations?tenant={quote(name)}").get_json()
        assert len(found["reservations"]) == 2

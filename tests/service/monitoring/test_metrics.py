"""/metrics held against the Plan; rules and dashboard held against /metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cluster.cluster import Cluster, MachineGroup, Pool
from planner.reservations.state import State
from rdl.resources import Resources
from service import exposition
from service.exposition import (
    MOST_ACCOUNTS,
    MOST_TENANTS,
    OTHERS,
    limit_tenants,
    used_by_group,
)
from tests.service.applying import an_application, submit_one
from tests.service.conftest import CLUSTER, Open, Service
from tests.service.monitoring.promql import QueryError, named_in, tokens_of
from tests.service.monitoring.scraped import scrape, value

DOCS = Path(__file__).parents[3] / "docs"
RULES = DOCS / "monitoring" / "alerts.yml"
DASHBOARD = DOCS / "monitoring" / "dashboard.json"
GIB = 1024**3

#: Series that Prometheus makes itself.
OF_PROMETHEUS = {"up": {"job", "instance"}}

TWO_GROUPS = (
    CLUSTER
    + """
[[machines]]
name = "big"
count = 2
resources = { cpu = 4, memory = "8 GiB" }

[promises]
level = "pooled"
requests_may_choose = ["placed"]
"""
)


@pytest.fixture
def busy(open_service: Open, cluster_file: Path) -> Service:
    """Return a service that has done one of each: promises, refusals, a change, a component."""
    cluster_file.write_text(TWO_GROUPS)
    service = open_service(tick_s=0)
    quota = {"type": "quota", "tenant": "*", "limit": {"cpu": 12, "memory": "16 GiB"}}
    assert service.client.put("/v1/policies/each", json=quota).status_code == 201
    service.reserve("a", "window(atom(<1 cpu, 1 GiB memory>, 4, 4, 1h, 4h), 0, 1h)", tenant="ads")
    rdl = "window(atom(<4 cpu>, 2, 2, 1h, 2h), 0, 1h)"
    service.reserve("b", rdl, tenant="web", promise="placed")
    assert service.ask("c", "window(atom(<1 cpu>, 18, 18, 1h, 18h), 0, 1h)").status_code == 409
    change = {"rdl": "window(atom(<1 cpu, 1 GiB memory>, 5, 5, 1h, 5h), 0, 1h)"}
    answer = service.client.put("/v1/reservations/a", json=change, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    outage = {"machines": "plain", "count": 1, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=outage).status_code in (200, 201)
    submit_one(service, "app", an_application(2))
    service.runtime.dispatcher.tick()
    service.runtime.dispatcher.tick()
    service.runtime.exposition = exposition.PlanExposition(service.runtime._replica, service.clock)
    return service


class TestFigures:
    def test_capacity_by_group_without_outages(self, busy: Service) -> None:
        """Nine of ten plain machines of a core, and two of four."""
        samples = scrape(busy)

        assert value(samples, "agenda_capacity", resource="cpu", group="plain") == 9
        assert value(samples, "agenda_capacity", resource="cpu", group="big") == 8
        assert value(samples, "agenda_capacity", resource="memory", group="big") == 16 * GIB
        assert value(samples, "agenda_machines", group="plain") == 10
        assert value(samples, "agenda_machines_out", group="plain") == 1

    def test_allocated_and_free_are_those_of_the_plan(self, busy: Service) -> None:
        """They are what `/v1/plan` shows for the present step, and add up to the capacity."""
        samples = scrape(busy)
        shown = busy.client.get("/v1/plan?from=0&to=60").get_json()["resources"]

        for resource, unit in (("cpu", 1), ("memory", 1024**2)):
            allocated = value(samples, "agenda_allocated", resource=resource)
            free = value(samples, "agenda_free", resource=resource)
            assert allocated == shown[resource]["allocated"][0] * unit
            assert free == shown[resource]["free"][0] * unit
        assert value(samples, "agenda_allocated", resource="cpu") == 13
        assert value(samples, "agenda_allocated", resource="memory") == 21 * GIB

    def test_promised_are_the_slots_of_a_group(self, busy: Service) -> None:
        """Eight cores of the big machines; what is pooled holds no machine."""
        samples = scrape(busy)

        assert value(samples, "agenda_promised", resource="cpu", group="big") == 8
        assert value(samples, "agenda_promised", resource="cpu", group="plain") == 0

    def test_used_is_what_components_hold(self, busy: Service) -> None:
        """Two components of one core are somewhere; when they end nothing is used."""

        def used() -> float:
            return sum(n for (name, labels), n in scrape(busy).items()
                       if name == "agenda_used" and ("resource", "cpu") in labels)  # fmt: skip

        assert used() == 2
        busy.client.delete("/v1/applications/app")
        busy.runtime.dispatcher.tick()
        assert used() == 0

    def test_policies_have_limit_use_and_peak_by_account(self, busy: Service) -> None:
        """`ads` has five cores and 5 GiB of twelve and 16; of `web` memory is not used."""
        samples = scrape(busy)

        def figures(tenant: str, resource: str) -> list[float]:
            labels = {"policy": "each", "tenant": tenant, "queue": "", "agent": ""}
            labels |= {"resource": resource, "measure": "instant"}
            names = ("limit", "used", "peak")
            return [value(samples, f"agenda_policy_{name}", **labels) for name in names]

        assert figures("ads", "cpu") == [12, 5, 5]
        assert figures("ads", "memory") == [16 * GIB, 5 * GIB, 5 * GIB]
        assert figures("web", "cpu") == [12, 8, 8]

    def test_reservations_by_state_and_tenant(self, busy: Service) -> None:
        """One of each tenant; each is counted once."""
        samples = scrape(busy)
        counts = {
            dict(labels)["tenant"]: n
            for (name, labels), n in samples.items()
            if name == "agenda_reservations"
        }

        assert counts == {"ads": 1, "web": 1}
        assert value(samples, "agenda_promises", promise="placed") == 1

    def test_what_happened_is_counted(self, busy: Service) -> None:
        """Admissions, refusals by code, changes by kind, churn, commits, builds."""
        samples = scrape(busy)

        assert value(samples, "agenda_reservations_admitted_total", promise="placed") == 1
        assert value(samples, "agenda_refusals_total", code="capacity") == 1
        assert value(samples, "agenda_changes_total", kind="update") >= 1
        assert value(samples, "agenda_commit_seconds_count") >= 4
        assert value(samples, "agenda_build_info", **exposition._build()) == 1

    def test_churn_is_the_work_that_moved(self, still: Service) -> None:
        """A core more for an hour is an hour of a tenth of the cluster."""
        still.reserve("a", "window(atom(<1 cpu>, 4, 4, 1h, 4h), 0, 1h)")
        before = value(scrape(still), "agenda_churn_cluster_seconds_total")
        change = {"rdl": "window(atom(<1 cpu>, 5, 5, 1h, 5h), 0, 1h)"}

        still.client.put("/v1/reservations/a", json=change, headers={"If-Match": "*"})

        after = value(scrape(still), "agenda_churn_cluster_seconds_total")
        assert after - before == pytest.approx(360)

    def test_outcomes_and_codes_are_at_0_from_the_start(self, still: Service) -> None:
        """So the first broken promise, and the first refusal, is an increase."""
        samples = scrape(still)

        assert value(samples, "agenda_promises_ended_total", outcome="broken") == 0
        assert value(samples, "agenda_refusals_total", code="quota") == 0

    def test_every_process_tells_the_same_plan(self, still: Service, open_service: Open) -> None:
        """One that made no commit shows what another has committed."""
        other = open_service(tick_s=0)
        still.reserve("a", tenant="ads")

        samples = scrape(other)

        assert value(samples, "agenda_reservations", state="accepted", tenant="ads") == 1

    def test_before_the_plan_is_replayed(
        self, still: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The counters are reported, and of the Plan nothing."""
        still.runtime._ready.clear()

        answer = still.client.get("/metrics")

        assert answer.status_code == 200
        assert b"agenda_commits_total" in answer.get_data()
        assert b"agenda_capacity" not in answer.get_data()
        still.runtime._ready.set()


class TestPools:
    def test_a_pool_is_told_once_and_of_no_group(
        self, open_service: Open, cluster_file: Path
    ) -> None:
        """Ten machines do not have a pool of three ten times; an outage takes one of it."""
        pool = '\n[[pools]]\nname = "seat"\ncount = 3\n\n[promises]\nlevel = "placed"\n'
        cluster_file.write_text(CLUSTER + pool)
        service = open_service(tick_s=0)
        gone = {"machines": "seat", "count": 1, "end": "+2h"}
        answer = service.client.post("/v1/cluster/outages", json=gone)
        assert answer.status_code == 201, answer.get_data(as_text=True)
        service.reserve("a", "window(atom(<1 cpu, 1 seat>, 2, 2, 1h, 2h), 0, 1h)")

        samples = scrape(service)

        for name, there in (("agenda_capacity", 2), ("agenda_promised", 2)):
            told = {dict(labels)["group"]: amount for (metric, labels), amount in samples.items()
                    if metric == name and dict(labels)["resource"] == "seat"}  # fmt: skip
            assert told == {"": there}
        assert value(samples, "agenda_capacity", resource="cpu", group="plain") == 10
        assert value(samples, "agenda_promised", resource="cpu", group="plain") == 2

    def test_components_use_a_pool_of_the_cluster(self) -> None:
        """What has a machine and a seat uses both; a machine that is gone counts for no group."""
        cluster = Cluster(
            60_000, 3_600_000, (MachineGroup("m", 2, Resources.of({"cpu": 4000})),),
            pools=(Pool("seat", 5),),
        )  # fmt: skip
        held = [({"cpu": 1000, "seat": 2}, "m-0"), ({"cpu": 1000, "seat": 1}, "gone-0")]
        assert used_by_group(held, cluster) == {("cpu", "m"): 1, ("seat", ""): 3}


class TestAccounts:
    def test_accounts_are_few_and_each_has_all_its_limits(self, open_service: Open) -> None:
        """Of 24 tenants with two limits each, twenty are told, and both limits of each."""
        service = open_service(tick_s=0)
        quota = {"type": "quota", "tenant": "*", "limit": {"cpu": 8, "memory": "16 GiB"}}
        assert service.client.put("/v1/policies/each", json=quota).status_code == 201
        for number in range(MOST_ACCOUNTS + 4):
            at = f"{number % 12 * 600}, {number % 12 * 600 + 600}"
            rdl = f"window(atom(<1 cpu, 1 GiB memory>, 1, 1, 10m, 10m), {at})"
            service.reserve(f"r{number}", rdl, tenant=f"t{number}")

        told = [dict(labels) for name, labels in scrape(service) if name == "agenda_policy_limit"]

        pairs = {(one["tenant"], one["resource"]) for one in told}
        tenants = {tenant for tenant, _ in pairs}
        assert len(tenants) == MOST_ACCOUNTS
        assert pairs == {(tenant, name) for tenant in tenants for name in ("cpu", "memory")}


class TestCost:
    def test_a_plan_that_stays_is_looked_at_once(
        self, still: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Scrapes of one version and step read the reservations once; a change reads them again."""
        looks: list[int] = []
        seconds = iter(range(0, 1000, 10))
        figures_of = exposition.figures_of

        def counted(*given: Any) -> Any:
            looks.append(1)
            return figures_of(*given)

        monkeypatch.setattr(exposition, "figures_of", counted)
        told = exposition.PlanExposition(
            still.runtime._replica, still.clock, steady_s=lambda: next(seconds)
        )
        for _ in range(5):
            told.text()
        assert len(looks) == 1
        still.reserve("a")
        told.text()
        assert len(looks) == 2

    def test_scrapes_of_one_second_are_one(self, still: Service) -> None:
        """What was reported is reported again, whatever has changed since."""
        told = exposition.PlanExposition(still.runtime._replica, still.clock, steady_s=lambda: 5.0)
        before = told.text()
        still.reserve("a")

        assert told.text() == before

    def test_few_tenants_have_labels(self) -> None:
        """The largest by name, all others together; no one is left out."""
        counts = {(f"t{i:03d}", State.ACCEPTED): i + 1 for i in range(100)}

        told = limit_tenants(counts)

        assert len({tenant for _, tenant in told}) == MOST_TENANTS + 1
        assert sum(told.values()) == sum(counts.values())
        assert told["accepted", "t099"] == 100
        assert told["accepted", OTHERS] == sum(range(1, 101 - MOST_TENANTS))


def queries() -> Iterator[tuple[str, str]]:
    """Yield (where, query) of every rule and panel."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


class TestQueries:
    def test_every_metric_and_label_is_there(self, busy: Service) -> None:
        """Rules and panels name only what a server has told, and labels that it has."""
        labels: dict[str, set[str]] = {name: set(known) for name, known in OF_PROMETHEUS.items()}
        for name, pairs in scrape(busy):
            labels.setdefault(name, set()).update(label for label, _ in pairs)
        labels["agenda_optimization_gap"] = set()  # there is none before the first optimisation

        for where, query in queries():
            named = named_in(query)
            assert named.metrics, where
            for metric, matched in named.metrics.items():
                assert metric in labels, f"{where}: {metric} is not told"
                assert set(matched) <= labels[metric], f"{where}: {metric} {matched}"
            known = {label for metric in named.metrics for label in labels[metric]}
            assert named.grouped <= known, f"{where}: {named.grouped}"

    def test_legends_show_labels_that_are_grouped_by(self) -> None:
        """A legend names a label only where the query keeps it."""
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            for target in panel["targets"]:
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                kept = named_in(target["expr"]).grouped or {"version", "python"}
                assert shown <= kept, panel["title"]

    def test_values_are_those_that_there_are(self) -> None:
        """States and outcomes that queries compare with exist."""
        known = {*(state.value for state in State), "kept", "broken", "lost", "cpu", "memory",
                 "agenda", "5.."}  # fmt: skip
        for where, query in queries():
            for matched in named_in(query).metrics.values():
                for text in matched.values():
                    assert set(text.split("|")) <= known, where

    def test_panels_stand_side_by_side(self) -> None:
        """No two panels of the dashboard cover each other, and ids differ."""
        panels = json.loads(DASHBOARD.read_text())["panels"]
        places = [
            (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
            for panel in panels
            for x in range(panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["h"])
        ]
        assert len(places) == len(set(places))
        assert len({panel["id"] for panel in panels}) == len(panels)

    def test_documentation_has_every_alert_and_metric(self, busy: Service) -> None:
        """docs/monitoring.md has a row for each alert, and names no metric that there is not."""
        page = (DOCS / "monitoring.md").read_text()
        alerts = [
            rule["alert"]
            for group in yaml.safe_load(RULES.read_text())["groups"]
            for rule in group["rules"]
        ]
        assert re.findall(r"^\| (Agenda\w+) \|", page, re.MULTILINE) == alerts
        told = {name for name, _ in scrape(busy)} | {"agenda_optimization_gap"}
        for name in re.findall(r"`(agenda_\w+)`", page):
            assert {name, f"{name}_count", f"{name}_total"} & told, name

    @pytest.mark.parametrize("wrong", ["sum(a", "a{b}", "a ? b", 'a{b="c" d="e"}', "rote(a[5m])"])
    def test_what_is_no_query_is_found(self, wrong: str) -> None:
        """The tokenizer refuses what Prometheus would refuse."""
        with pytest.raises((QueryError, ValueError)):
            named_in(wrong)

    def test_what_a_query_names(self) -> None:
        """Metrics with their labels, and the labels it groups by."""
        query = 'histogram_quantile(0.9, sum by (le) (rate(a_bucket{x=~"5..", y="z"}[5m]))) > 2'

        named = named_in(query)

        assert named.metrics == {"a_bucket": {"x": "5..", "y": "z"}}
        assert named.grouped == {"le"}
        assert tokens_of("a - on (b) c") == ["a", "-", "on", "(", "b", ")", "c"]

    def test_promtool_takes_the_rules(self) -> None:
        """Where Debian's prometheus is installed, its own checker finds nothing."""
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not installed")
        done = subprocess.run(
            [promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

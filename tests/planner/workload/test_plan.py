"""Whole workloads to plan files."""

from __future__ import annotations

import json
from itertools import count

import jsonschema
import pytest

from planner.agents import agent_named
from planner.files import PlanDocument, cluster_from_json
from planner.files.schema import load_schema
from planner.validation.validate import validate
from planner.workload.plan import plan_from_nothing, plan_workload
from tests.builders import a_cluster, a_request, a_workload
from tests.planner.plan_documents import EXAMPLE, STAGES

MIXED = (
    a_request("good", STAGES).tenant("ads"),
    a_request("bad", "atom(<1 cpu>, 1, 10"),
    a_request("wide", "atom(<1 cpu>, 200, 200, 5, 1000)"),
    a_request("never", "window(atom(<1 cpu>, 1, 1, 50, 50), 0, 10)"),
    a_request("late", "window(atom(<1 cpu>, 1, 1, 50, 50), 900, 1000)"),
    a_request("choice", "any(atom(<1 cpu>, 99, 99, 5, 495), atom(<1 cpu>, 1, 1, 5, 5))"),
    a_request("again", "window(every(100, atom(<1 cpu>, 1, 1, 5, 5), times=3), 0, 300)"),
)


def test_the_example_of_the_format_is_planned_exactly() -> None:
    """Rows, number forms and figures as docs/files.md shows them; only the runtime may differ."""
    cluster = a_cluster().machines("m", 100, cpu=1).build()
    workload = a_workload(cluster, a_request("r1", STAGES).tenant("ads"))
    ticks = count()
    document = plan_workload(
        cluster, workload, agent_named("gree"), timer=lambda: next(ticks) / 10_000
    )
    planned = json.loads(document.to_text())
    assert planned.pop("cluster") == {
        "step": "1s",
        "horizon": "13m20s",
        "machines": [{"name": "m", "count": 100, "resources": {"cpu": 1}}],
        "promises": {"level": "pooled"},
    }
    assert planned == {name: EXAMPLE[name] for name in EXAMPLE if name != "cluster"}
    text = document.to_text()
    assert '"submitted": 0,' in text
    assert '"weight": 1.0' in text


@pytest.mark.parametrize("agent", ["gree", "gree-l"])
def test_every_line_has_one_answer_and_the_plan_is_valid(agent: str) -> None:
    """Reservations and refusals are the requests, each once, in order; the validator agrees."""
    cluster = a_cluster().build()
    document = plan_workload(cluster, a_workload(cluster, *MIXED), agent_named(agent))
    plain = document.to_json()
    jsonschema.validate(plain, load_schema("plan"))
    assert validate(plain, asked=[one.line.id for one in MIXED]) == []
    assert [one["id"] for one in document.reservations] == ["good", "choice", "again"]
    assert {one["id"]: one["code"] for one in document.refusals} == {
        "bad": "malformed",
        "wide": "capacity",
        "never": "unsatisfiable",
        "late": "beyond_horizon",
    }
    assert document.metrics["requests"] == 7
    assert document.metrics["accepted"] == 3


def test_two_runs_differ_in_runtime_alone() -> None:
    """Same input, same text, byte for byte, with the same clock."""
    cluster = a_cluster().build()
    texts = {
        plan_workload(
            cluster, a_workload(cluster, *MIXED), agent_named("gree-l"), timer=lambda: 0.0
        ).to_text()
        for _ in range(3)
    }
    assert len(texts) == 1


def test_a_plan_file_read_back_is_the_same_plan() -> None:
    """from_json(to_json) is the identity, and its cluster is the cluster."""
    cluster = a_cluster().origin("2026-01-05T00:00:00Z").outage("plain", 3, 5, 50)
    built = cluster.machines("plain", 100, cpu=1).build()
    document = plan_workload(built, a_workload(built, *MIXED), agent_named("gree"))
    again = PlanDocument.from_json(json.loads(document.to_text()))
    assert again.to_text() == document.to_text()
    assert cluster_from_json(again.cluster) == built
    assert again.reservations[0]["submitted_at"] == "2026-01-05T00:00:00Z"


def test_limits_that_agents_do_not_see_become_refusals() -> None:
    """The second reservation of a tenant that may have one is refused with the limit's code."""
    cluster = a_cluster().policy("limits", name="one", tenant="*", max_count=1).build()
    lines = [a_request(id_, STAGES).tenant("ads") for id_ in ("a", "b")]
    planned = plan_from_nothing(cluster, a_workload(cluster, *lines), agent_named("gree"))
    assert [one["id"] for one in planned.document.reservations] == ["a"]
    assert [one["code"] for one in planned.document.refusals] == ["count_limit"]
    assert planned.document.refusals[0]["binding"]["policy"] == "one"
    assert planned.plan.version == 1
    assert not planned.results[1].placed


def test_an_empty_workload_is_an_empty_plan() -> None:
    """Nothing asked, nothing refused, and still a valid file."""
    cluster = a_cluster().build()
    document = plan_workload(cluster, a_workload(cluster), agent_named("gree"))
    assert (document.reservations, document.refusals, document.version) == ((), (), 0)
    jsonschema.validate(document.to_json(), load_schema("plan"))
    assert validate(document.to_json()) == []


def test_a_best_effort_session_is_a_reservation_without_rows() -> None:
    """void is satisfied trivially and holds nothing."""
    cluster = a_cluster().build()
    document = plan_workload(
        cluster, a_workload(cluster, a_request("v", "void(<1 cpu>, 10)")), agent_named("gree")
    )
    assert [one["atoms"] for one in document.reservations] == [[]]


def test_an_agent_that_proves_a_bound_is_requested_it() -> None:
    """Its bound and status end up among the metrics."""
    cluster = a_cluster().horizon(20).machines("m", 4, cpu=1).build()
    work = a_workload(cluster, a_request("a", "window(atom(<1 cpu>, 1, 4, 2, 8), 0, 10)"))

    class Bounded:
        """Gree that says it can prove a bound."""

        name = "bounded"

        def plan(self, requests, view, limits):  # type: ignore[no-untyped-def]
            raise AssertionError("solve is asked, not plan")

        def solve(self, requests, view, limits):  # type: ignore[no-untyped-def]
            class Report:
                status, bound, detail = "feasible", 16 / 3600, ""

            return agent_named("gree").plan(requests, view, limits), Report()

    document = plan_workload(cluster, work, Bounded())  # type: ignore[arg-type]
    assert document.metrics["bound"] == pytest.approx(16 / 3600)
    assert document.metrics["status"] == "feasible"
    assert document.metrics["gap"] == 0.5  # though all are accepted

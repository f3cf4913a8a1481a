"""The Plan of a server in the form of plan files, read over HTTP."""

from __future__ import annotations

from planner.files import PlanDocument
from planner.workload.reload import metrics_of
from service.cli.plan_files import served_plan
from tests.service.cli.client.in_process_server import InProcessServer
from tests.service.conftest import Service


def test_the_document_is_a_plan_file_with_the_figures_of_the_servers_plan(
    service: Service,
) -> None:
    """Accepted, cancelled, repeated and refused requests, options with preferences among them."""
    service.reserve("plain")
    service.reserve("gone")
    service.reserve(
        "prefers", "any(atom(<1 cpu>, 1, 3, 60, 600), atom(<1 cpu>, 1, 1, 60, 60), prefer=[0.5, 1])"
    )
    service.reserve("nightly", "every(1h, atom(<1 cpu>, 1, 2, 60, 120), times=2)")
    assert service.ask("wide", "atom(<1 cpu>, 99, 99, 60, 5940)").status_code >= 400
    whole = "window(atom(<1 cpu>, 10, 10, 60, 600), 0, 60)"
    service.reserve("full", whole)
    assert service.ask("more", whole).status_code == 409
    assert service.client.delete("/v1/reservations/gone").status_code == 200
    plain = served_plan(InProcessServer(service))
    with service.runtime.reading() as plan:
        expected = metrics_of(plan).to_json()
    assert plain["metrics"] == expected | {"runtime_ms": None}
    # No one planned it in one run: but for that time it is a plan file.
    PlanDocument.from_json({**plain, "metrics": expected | {"runtime_ms": 0.0}})
    assert [one["id"] for one in plain["refusals"]] == ["wide", "more"]

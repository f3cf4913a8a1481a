"""A best-effort session: a reservation for which nothing is planned, and that has no end."""

from __future__ import annotations

import pytest

from tests.service.conftest import Service

SESSION = "void(<1 cpu>, 3)"


@pytest.mark.parametrize(("query", "status"), [("?dry_run=true", 200), ("", 201)])
def test_a_session_is_accepted_without_times(service: Service, query: str, status: int) -> None:
    """A session has neither window nor end, asked for or only tried."""
    body = {"id": "s", "tenant": "ads", "rdl": SESSION}
    answer = service.client.post(f"/v1/reservations{query}", json=body)

    assert answer.status_code == status, answer.get_data(as_text=True)
    told = answer.get_json()
    assert (told["state"], told["atoms"], told["window"]) == ("accepted", [], None)
    assert (told["finish"], told["finish_at"]) == (None, None)


@pytest.mark.parametrize(
    "path",
    ["/v1/reservations/s", "/v1/reservations/s/explanation", "/v1/reservations", "/v1/plan/bars",
     "/v1/plan/changes?since=0", "/v1/plan/export"],
)  # fmt: skip
def test_what_reads_the_plan_reads_a_session(service: Service, path: str) -> None:
    """Every reading call answers while a session stands in the Plan."""
    service.reserve("s", SESSION, tenant="ads")

    assert service.client.get(path).status_code == 200

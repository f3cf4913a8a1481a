"""A fault of ours in one change is told to who asked for it, and to no one else."""

from __future__ import annotations

from typing import Any

import pytest

from planner.placement import PlacementResult
from planner.plan.batch import admission
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.request import Request
from service.commits import screening as placing
from service.commits.group_commit import GroupCommit
from service.commits.records import first_violation
from service.store.engine import UnavailableError
from tests.service.conftest import Open
from tests.service.together import in_one_commit

RDL = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"


def test_a_fault_in_one_change_is_no_others(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of changes that one commit would take, the broken one is 500 and the others are made."""
    service = open_service()
    refusal, together = admission.rule_refusal, []

    def broken(plan: Plan, request: Request) -> PlacementResult | None:
        if request.id == "broken":
            together.append(request.id)
            raise KeyError("a fault")
        return refusal(plan, request)

    monkeypatch.setattr(placing, "rule_refusal", broken)
    told: dict[str, int] = {}

    def ask(id_: str) -> None:
        told[id_] = service.ask(id_, RDL, agent="gree-l").status_code

    ids = ["a", "b", "broken", "c", "d"]
    in_one_commit(service, *(lambda id_=id_: ask(id_) for id_ in ids))

    assert told == {"a": 201, "b": 201, "broken": 500, "c": 201, "d": 201}
    assert len(together) == 2  # with others, then by itself
    shown = service.client.get("/v1/reservations").get_json()["reservations"]
    assert sorted(one["id"] for one in shown) == ["a", "b", "c", "d"]


def test_a_database_that_is_unavailable_is_tried_once_for_all_that_wait(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five changes of one commit are 503 after one try: one by one they would wait five times."""
    service = open_service()
    tries: list[int] = []

    def away(_: GroupCommit) -> None:
        tries.append(1)
        raise UnavailableError("nobody answers")

    told: list[int] = []

    def ask(id_: str) -> None:
        told.append(service.ask(id_, RDL, agent="gree-l").status_code)

    with monkeypatch.context() as patch:
        patch.setattr(GroupCommit, "move_to_now", away)
        in_one_commit(service, *(lambda id_=id_: ask(id_) for id_ in "abcde"))
    assert told == [503] * 5
    assert len(tries) == 1
    assert service.ask("a", RDL, agent="gree-l").status_code == 201


@pytest.mark.parametrize("atomic", [True, False])
def test_a_placement_that_the_oracle_rejects(
    open_service: Open, monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    """It is a fault of ours and never kept; of an all-or-nothing batch nothing is kept then."""
    service, oracle = open_service(), first_violation

    def strict(record: CommitRecord, *given: Any) -> Any:
        rejected = "b" in [getattr(change, "id", "") for change in record.changes]
        return ("b", "nothing of it is right") if rejected else oracle(record, *given)

    monkeypatch.setattr("service.commits.group_commit.first_violation", strict)
    batch = [{"id": id_, "rdl": RDL} for id_ in "abc"]
    path = f"/v1/reservations:batch?atomic={str(atomic).lower()}"
    answer = service.client.post(path, json=batch)
    assert "internal" in answer.get_data(as_text=True)
    shown = service.client.get("/v1/reservations").get_json()["reservations"]
    assert sorted(one["id"] for one in shown) == ([] if atomic else ["a", "c"])

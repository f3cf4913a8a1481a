"""What an optimisation keeps for whoever goes on from there."""

from __future__ import annotations

from typing import Any

import pytest

from planner.plan.records.changes import Change
from service.tasks import plan_task
from service.tasks.plan_task import KeptPlan, _PlanKeeper
from tests.builders import a_cluster, a_plan


class _RecordedLink:
    """Hears what a task keeps."""

    def __init__(self) -> None:
        self.kept: Any = None

    def stop(self) -> bool:
        return False

    def tell(self, news: Any) -> None:
        """Hear nothing."""

    def keep(self, state: KeptPlan) -> None:
        self.kept = state


def test_a_plan_that_came_too_soon_is_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of a burst is not lost where nothing better follows it."""
    plan, link = a_plan(a_cluster().machines("plain", 1, cpu=1).build()).build(), _RecordedLink()
    keeper = _PlanKeeper(plan, link, 0.0)
    looked: list[str] = []

    def found(name: str) -> list[Change]:
        looked.append(name)
        return []

    keeper.consider(lambda: found("first"))
    first = link.kept
    keeper.consider(lambda: found("better"))
    assert not keeper.stop()
    assert (looked, link.kept) == (["first"], first)
    monkeypatch.setattr(plan_task, "_KEEP_S", 0.0)
    assert not keeper.stop()
    assert looked == ["first", "better"]
    assert link.kept.elapsed_s >= first.elapsed_s
    assert not keeper.stop()
    assert looked == ["first", "better"]

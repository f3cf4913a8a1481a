"""What an optimisation keeps for anyone who continues from there."""

from __future__ import annotations

from typing import Any

from planner.plan.records.changes import Change
from service.jobs.tasks import KeptPlan, _PlanKeeper
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


class _KeeperUse:
    """A keeper on a clock that the test sets, and which plans it looked at."""

    def __init__(self) -> None:
        plan = a_plan(a_cluster().machines("plain", 1, cpu=1).build()).build()
        self.link, self.now_s, self.looked = _RecordedLink(), 0.0, ""
        self.keeper = _PlanKeeper(plan, self.link, 0.0, lambda: self.now_s)

    def consider(self, name: str, takes_s: float = 0.0) -> None:
        """Offer a plan that takes so long to make up."""

        def found() -> list[Change]:
            self.looked += name
            self.now_s += takes_s
            return []

        self.keeper.consider(found)


def test_a_plan_that_came_too_soon_is_kept_later() -> None:
    """The best of a burst is not lost where nothing better follows it."""
    use = _KeeperUse()
    for name in "abc":
        use.consider(name)
    use.now_s = 1.9
    assert not use.keeper.stop()
    assert use.looked == "a"
    use.now_s = 2.0
    assert not use.keeper.stop()
    assert (use.looked, use.link.kept.elapsed_s) == ("ac", 2.0)
    use.now_s = 9.0
    assert not use.keeper.stop()
    assert use.looked == "ac"


def test_plans_that_take_long_to_make_up_are_kept_more_seldom() -> None:
    """Of two seconds each: once in twenty."""
    use = _KeeperUse()
    use.consider("a", takes_s=2.0)
    for use.now_s in (5.0, 19.9):
        use.consider("b")
    assert use.looked == "a"
    use.now_s = 20.0
    use.consider("c")
    assert use.looked == "ac"

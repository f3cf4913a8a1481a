"""A world that starts work by the classes of a table, for the tests of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dispatch.cycle.options import DispatchOptions, options_of
from dispatch.entitlements.follower import PlanFollower
from lp.lotes.dispatch_table import DispatchTable
from planner.cluster.cluster import Cluster
from planner.cluster.dispatch_policy import DispatchPolicy, complete_words
from tests.builders import a_cluster, a_plan, a_request
from tests.dispatch.cycle.world import World, an_application


@dataclass
class FixedTable:
    """A table that never changes, for the follower."""

    table: DispatchTable | None

    def table_at(self, plan: object, now_ms: int) -> tuple[DispatchTable | None, int]:
        """Return it."""
        del plan, now_ms
        return self.table, int(self.table is not None)


def by_class() -> DispatchOptions:
    """Return what `order = "lotes"` asks for."""
    words = DispatchPolicy(**complete_words({"order": "lotes"}))
    cluster = a_cluster().machines("m", 1, cpu=1).build()
    return options_of(Cluster(**{**_fields(cluster), "dispatch": words}))


def _fields(cluster: Cluster) -> dict[str, Any]:
    names = [
        name for name in cluster.__dataclass_fields__ if cluster.__dataclass_fields__[name].init
    ]
    return {name: getattr(cluster, name) for name in names}


def a_class_world(
    cluster: Cluster, table: DispatchTable | None, *requests: str, options: Any = None
) -> World:
    """Return a world that follows a table."""
    held = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(requests, 1)]
    plan = a_plan(cluster).holding(*held).build()
    world = World(cluster, plan, options or by_class())
    world.follower = PlanFollower(plan, tables=FixedTable(table), stop_grace_ms=5_000)
    return world


def job(name: str, cpu: int = 1, **rest: Any) -> Any:
    """Return an application of one core; the first letter of its name is its class."""
    return an_application(name, cpu=cpu, job_class=name[0], **rest)

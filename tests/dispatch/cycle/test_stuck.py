"""A component that could not begin on a machine is started on another one, if there is room."""

from __future__ import annotations

from dispatch.executions.events import EventKind
from tests.builders import a_cluster, a_plan
from tests.dispatch.cycle.world import World, an_application

_CLUSTER = a_cluster().horizon("2000s").step("10s").machines("node", 2, cpu=4).build()


def test_another_machine_is_taken_while_it_has_room() -> None:
    world = World(_CLUSTER, a_plan(_CLUSTER).build())
    world.submit(an_application("app"))
    machines = []
    for at_s in (0, 10):
        world.tick(at_s)
        (row,) = world.backend.state().rows
        machines.append(row.machine)
        world.backend._leave(row, EventKind.STUCK, at_s * 1000 + 1000, "no room")
    assert set(machines) == {"node-0", "node-1"}
    world.tick(20)
    assert len(world.backend.state().rows) == 1

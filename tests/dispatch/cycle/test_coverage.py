"""An application is refused at submission exactly where the dispatcher would never cover it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.applications.application import Application, Component
from dispatch.cycle.cover import cover_faults, is_coverable
from dispatch.entitlements.directive import Entitlement
from dispatch.entitlements.follower import PlanFollower
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import MachineGroup
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from rdl.resources import CPU, MEMORY, Resources
from tests.builders import a_cluster
from tests.dispatch.cycle.slot_world import SlotWorld, promised_machines, reserve

_GIB = 1024


def _machine(name: str, memory_gib: int, gpu: int = 0, *labels: str) -> MachineGroup:
    amounts = {CPU: 4000, MEMORY: memory_gib * _GIB, "gpu": gpu}
    return MachineGroup(name, 2, Resources.of(amounts), frozenset(labels))


_CLUSTER = promised_machines(
    replace(
        a_cluster().horizon(60).build(),
        machines=(_machine("m", 4), _machine("g", 8, 1, "gpu")),
        promise_choices=(PromiseLevel.POOLED,),
    )
)


def _component(cpu: int, memory: int, gpu: int = 0, count: int = 1, **more: object) -> Component:
    asked = Resources.of({CPU: 1000 * cpu, MEMORY: memory * _GIB, "gpu": gpu})
    return Component(f"c{cpu}{memory}{gpu}{count}", count, True, asked, **more)  # type: ignore[arg-type]


def _application(*components: Component, **more: object) -> Application:
    named = tuple(replace(one, name=f"p{place}") for place, one in enumerate(components))
    return Application("app", named, reservation="r", **more)  # type: ignore[arg-type]


def _plan(text: str, level: PromiseLevel = PromiseLevel.PLACED) -> Plan:
    plan = Plan(_CLUSTER, _CLUSTER.grid())
    assert reserve(plan, "r", text, level)
    return plan


def _ahead(plan: Plan) -> list[Entitlement]:
    return [one for _, one in PlanFollower(plan).ahead("r")]


_COMPONENTS = st.builds(
    _component,
    cpu=st.integers(1, 4),
    memory=st.integers(0, 4),
    gpu=st.sampled_from([0, 0, 0, 1]),
    count=st.integers(1, 4),
    labels=st.sampled_from([frozenset(), frozenset({"gpu"})]),
)


@settings(max_examples=60)
@given(
    cpu=st.integers(1, 4),
    memory=st.integers(0, 4),
    heights=st.sampled_from([(1, 1), (2, 2), (1, 4), (3, 3)]),
    on=st.sampled_from(["", ', on="gpu"']),
    level=st.sampled_from([PromiseLevel.PLACED, PromiseLevel.POOLED]),
    components=st.lists(_COMPONENTS, min_size=1, max_size=2),
)
def test_what_is_accepted_is_what_will_be_covered(
    cpu: int,
    memory: int,
    heights: tuple[int, int],
    on: str,
    level: PromiseLevel,
    components: list[Component],
) -> None:
    """The law: no fault at submission, just where some tick covers all cores at once."""
    least, most = heights
    bundle = f"<{cpu} cpu, {memory} GiB memory>" if memory else f"<{cpu} cpu>"
    plan = Plan(_CLUSTER, _CLUSTER.grid())
    text = f"window(atom({bundle}, {least}, {most}, 4, {8 * least}{on}), 4, 24)"
    if not reserve(plan, "r", text, level):
        return
    application, pool = _application(*components), MachinePool(_CLUSTER)
    faults = cover_faults(_ahead(plan), application, pool)
    world = SlotWorld(_CLUSTER, plan)
    execution = world.submit(application)
    covered = False
    for second in range(26):
        world.tick(second)
        covered |= all(part.covered == part.component.count for part in execution.parts)
    never = pool.why_never_all(application)
    assert (not faults and never is None) == covered


_TWO = "window(atom(<2 cpu>, 3, 3, 9, 27), 3, 12)"
_WITH = "window(atom(<2 cpu, 1 GiB memory>, 3, 3, 9, 27), 3, 12)"


@pytest.mark.parametrize(
    ("text", "components", "pointers", "words"),
    [
        (_TWO, [_component(2, 0, count=3)], [], ""),
        (_TWO, [_component(1, 0, count=6)], [], ""),
        (_TWO, [_component(2, 1)], [0], "memory"),
        (_WITH, [_component(2, 1, count=3)], [], ""),
        (_WITH, [_component(1, 0), _component(2, 2, gpu=1)], [1], "gpu"),
        (_WITH, [_component(2, 1, count=4)], [0], "3 of 4"),
        (_WITH, [_component(2, 1, count=2), _component(2, 1, count=2)], [None], "at once"),
        (_WITH, [_component(2, 1, labels=frozenset({"gpu"}))], None, "gpu"),
    ],
)
def test_a_fault_names_the_component_and_what_is_wrong(
    text: str, components: list[Component], pointers: list[int | None] | None, words: str
) -> None:
    """A resource without a bundle, too many, all of them together; labels where slots lack them."""
    plan, pool = _plan(text), MachinePool(_CLUSTER)
    faults = cover_faults(_ahead(plan), _application(*components), pool)
    if pointers is None:
        labelled = [slot for one in _ahead(plan) for slot in one.atoms[0].slots]
        pointers = [] if any((slot.machine or "").startswith("g") for slot in labelled) else [0]
    assert [one.component for one in faults] == pointers
    assert all(words in one.detail and one.fix for one in faults)


def test_elastic_components_may_exceed_the_bundles() -> None:
    """Only cores have to be covered."""
    elastic = replace(_component(4, 4, gpu=1, count=9), core=False)
    application = _application(_component(2, 0), elastic)
    assert cover_faults(_ahead(_plan(_TWO)), application, MachinePool(_CLUSTER)) == []


def test_an_atom_that_is_named_counts_alone() -> None:
    """The second stage is smaller: what fits the first does not run under it."""
    stages = "atom(<2 cpu>, 3, 3, 6, 18), atom(<1 cpu>, 1, 1, 6, 6)"
    ahead = _ahead(_plan(f"window(order({stages}), 3, 20)"))
    application, pool = _application(_component(2, 0)), MachinePool(_CLUSTER)
    assert cover_faults(ahead, application, pool) == []
    assert cover_faults(ahead, replace(application, atom="0.0"), pool) == []
    assert [
        one.component for one in cover_faults(ahead, replace(application, atom="0.1"), pool)
    ] == [0]


def test_applications_before_it_take_their_part() -> None:
    """Two of three bundles are taken: one more of them is covered, and not two."""
    (entitlement,) = _ahead(_plan(_TWO))
    pool, before = MachinePool(_CLUSTER), [_application(_component(2, 0, count=2))]
    one, two = (_application(_component(2, 0, count=count)) for count in (1, 2))
    assert is_coverable(entitlement, one, pool, before)
    assert not is_coverable(entitlement, two, pool, before)
    assert is_coverable(entitlement, two, pool)


def test_machines_that_are_down_are_no_fault() -> None:
    """A slot whose machine is lost covers nothing now; the application could still be covered."""
    (entitlement,) = _ahead(_plan(_TWO))
    pool = MachinePool(_CLUSTER)
    for name in pool.names:
        pool.lose(name)
    assert is_coverable(entitlement, _application(_component(2, 0)), pool)

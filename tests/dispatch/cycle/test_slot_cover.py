"""cover_of: components matched to slots, machine by machine, and to totals."""

from __future__ import annotations

from dispatch.cycle.cover import cover_of
from dispatch.entitlements.directive import AtomShare, Entitlement
from dispatch.entitlements.slots import LOST, ActiveSlot
from dispatch.executions.execution import ComponentGroup, Execution, HeldComponent
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from rdl.resources import Resources
from tests.builders import a_cluster
from tests.dispatch.cycle.world import an_application

_CLUSTER = a_cluster().machines("m", 3, cpu=8).machines("g", 1, labels=("gpu",), cpu=8).build()


class _Scene:
    """Executions under one reservation, and slots of two-core bundles."""

    def __init__(self) -> None:
        self.pool = MachinePool(_CLUSTER)
        self.table = ExecutionTable(self.pool)

    def submit(self, name: str, core: int, elastic: int = 0, **rest: object) -> Execution:
        """Submit an execution of the reservation."""
        wanted = an_application(name, core, elastic, reservation="r", **rest)  # type: ignore[arg-type]
        return self.table.submit(name, wanted, len(self.table))

    def stand(self, execution: Execution, part: int, *machines: str) -> None:
        """Put components on machines."""
        group = execution.parts[part]
        for machine in machines:
            held = HeldComponent(group.free_index(), machine, 0, up=True)
            self.table.put_on(execution, group, held)

    def places(self, *slots: tuple[str | None, int, int], path: str = "0") -> dict[str, object]:
        """Match to slots of (machine, bundles, end)."""
        return self.match(_share(path, *slots))[0]

    def match(self, *shares: AtomShare) -> tuple[dict[str, object], frozenset[str]]:
        """Match to the slots of atoms."""
        entitlement = Entitlement("r", "t", 0, shares)
        _, found, idle = cover_of(entitlement, self.table.of_reservation("r"), self.pool)
        return {one.id: machines for one, machines in found.items()}, idle


def _share(path: str, *slots: tuple[str | None, int, int]) -> AtomShare:
    held = tuple(ActiveSlot(machine, bundles, 0, end) for machine, bundles, end in slots)
    bundle = Resources.of({"cpu": 2000})
    return AtomShare(path, sum(slot.bundles for slot in held), bundle, None, held)


def test_those_that_stand_in_slots_stay_and_the_others_get_the_rest() -> None:
    """One of two cores stands on m-1: it keeps its place, the other gets m-0."""
    scene = _Scene()
    one = scene.submit("one", 2, cpu=2)
    scene.stand(one, 0, "m-1")
    assert scene.places(("m-0", 1, 9), ("m-1", 1, 5)) == {"one": ({"m-1": 1, "m-0": 1},)}


def test_several_components_share_the_capacity_of_a_slot() -> None:
    """Two bundles of two cores on one machine hold four components of one core."""
    scene = _Scene()
    scene.submit("one", 1, 5)
    assert scene.places(("m-0", 2, 9)) == {"one": ({"m-0": 1}, {"m-0": 3})}


def test_bundles_on_two_machines_do_not_hold_what_is_larger_than_each() -> None:
    """Four cores in all, two on each machine: a component of four is not covered."""
    scene = _Scene()
    scene.submit("one", 1, cpu=4)
    assert scene.places(("m-0", 1, 9), ("m-1", 1, 9)) == {}
    assert scene.places(("m-0", 2, 9)) == {"one": ({"m-0": 1},)}


def test_cores_take_the_longest_slots() -> None:
    """The core goes where it need not leave soon, the elastic component to the other."""
    scene = _Scene()
    scene.submit("one", 1, 1, cpu=2)
    assert scene.places(("m-0", 1, 5), ("m-1", 1, 9)) == {"one": ({"m-1": 1}, {"m-0": 1})}


def test_elastic_components_that_stand_give_way_to_cores() -> None:
    """An elastic component fills the only slot; a later execution's core gets it."""
    scene = _Scene()
    one = scene.submit("one", 1, 1, cpu=2)
    scene.submit("two", 1, cpu=2)
    scene.stand(one, 0, "m-0")
    scene.stand(one, 1, "m-1")
    places = scene.places(("m-0", 1, 9), ("m-1", 1, 9))
    assert places == {"one": ({"m-0": 1}, {}), "two": ({"m-1": 1},)}


def test_an_execution_is_covered_with_all_its_cores_or_not_at_all() -> None:
    """Three cores and two slots: the slots go to the next execution."""
    scene = _Scene()
    three = scene.submit("three", 3, cpu=2)
    scene.submit("two", 2, cpu=2)
    scene.stand(three, 0, "m-0")
    places, idle = scene.match(_share("0", ("m-0", 1, 9), ("m-1", 1, 9)))
    assert places == {"two": ({"m-0": 1, "m-1": 1},)}
    assert not idle


def test_slots_without_a_machine_and_on_machines_that_are_down_cover_nothing() -> None:
    """One bundle lost its machine, another's machine is lost: neither covers a core."""
    scene = _Scene()
    scene.submit("one", 1, cpu=2)
    scene.pool.lose("m-0")
    assert scene.places((LOST, 1, 9), ("m-0", 1, 9)) == {}


def test_an_execution_that_names_an_atom_draws_on_its_slots_alone() -> None:
    """Its atom has m-1; the slots of the other atom stay, and say that they are idle."""
    scene = _Scene()
    scene.submit("one", 1, 2, cpu=2, atom="0.1")
    places, idle = scene.match(_share("0.0", ("m-0", 2, 9)), _share("0.1", ("m-1", 2, 9)))
    assert places == {"one": ({"m-1": 1}, {"m-1": 1})}
    assert idle == {"m-0"}


def test_a_slot_covers_no_component_for_which_its_machine_has_not_the_labels() -> None:
    """A component for GPUs is covered on the machine that has them."""
    scene = _Scene()
    scene.submit("one", 1, cpu=2, labels=("gpu",))
    assert scene.places(("m-0", 1, 9), ("g-0", 1, 5)) == {"one": ({"g-0": 1},)}


def test_totals_are_a_slot_on_no_machine() -> None:
    """They cover what runs anywhere, machines before them, and are on no idle machine."""
    scene = _Scene()
    one = scene.submit("one", 3, cpu=2)
    scene.stand(one, 0, "m-2")
    assert scene.match(_share("0", (None, 4, 9))) == ({"one": ({None: 3},)}, frozenset())
    assert scene.places((None, 2, 9), ("m-0", 1, 5)) == {"one": ({"m-0": 1, None: 2},)}
    assert scene.places((None, 2, 9)) == {}


def test_slots_on_machines_that_go_away_cover_nothing() -> None:
    """Totals stay."""
    scene = _Scene()
    scene.submit("one", 1, cpu=2)
    away = frozenset({"m-0"})
    for machine, count in (("m-0", 0), ("m-1", 1), (None, 1)):
        entitlement = Entitlement("r", "t", 0, (_share("0", (machine, 1, 9)),))
        cover = cover_of(entitlement, scene.table.of_reservation("r"), scene.pool, away)
        assert len(cover.counts) == count


def test_one_that_runs_elsewhere_lacks_nothing() -> None:
    """Of two covered on m-0 one runs on m-1: one is to be put there, none once both run."""
    group = ComponentGroup(an_application("one", 2).components[0])
    group.covered, group.places = 2, {"m-0": 2}
    group.take_on(HeldComponent(0, "m-1", 0))
    assert group.shortage_by_machine({"m-0": 2}) == {"m-0": 1}
    assert group.cover_flags() == [False]
    group.take_on(HeldComponent(1, "m-0", 1))
    assert group.shortage_by_machine({"m-0": 2}) == {}
    assert group.cover_flags() == [False, True]

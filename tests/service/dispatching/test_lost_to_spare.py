"""A machine that is lost, in a server whose policy keeps spare machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from service.commits.planner import Planner
from service.dispatching.machine_watch import MachineWatch
from tests.service.conftest import Service

_CLUSTER = {
    "step": 60, "horizon": "12h", "promises": {"level": "placed"},
    "machines": [{"name": "m", "count": 4, "resources": {"cpu": 4}}],
    "dispatch": {"spare": 0.5},
}  # fmt: skip
_HOUR_MS = 3_600_000
_NAMES = [f"m-{index}" for index in range(4)]


def _open(still: Service) -> MachineWatch:
    assert (
        still.client.put("/v1/cluster", json=_CLUSTER, headers={"If-Match": "*"}).status_code == 200
    )
    return MachineWatch(still.runtime.planner, still.runtime._replica)


def _outages(still: Service, kind: str) -> list[str]:
    found = still.client.get("/v1/cluster/outages").get_json()["outages"]
    return [name for one in found if one["kind"] == kind for name in one["names"]]


def _machines(body: Any) -> set[str]:
    return {row[-1] for atom in body["atoms"] for row in atom["slots"]}


def test_what_was_promised_on_a_lost_machine_has_a_spare_one_at_the_same_times(
    still: Service,
) -> None:
    """One of four was lost for an hour: three are promised; then one of them is lost."""
    watch = _open(still)
    watch.follow({"m-0": still.runtime.now_ms()}, _NAMES[1:], still.runtime.now_ms())
    still.clock.advance(3600)
    watch.follow({}, _NAMES, still.runtime.now_ms())
    (spare,) = _outages(still, "spare")
    wide = "window(atom(<4 cpu>, {0}, {0}, 1h, {0}h), +2h, +3h)"
    assert still.ask("four", wide.format(4)).status_code == 409
    before = still.reserve("three", wide.format(3))
    assert spare not in _machines(before)

    lost = sorted(_machines(before))[0]
    now_ms = still.runtime.now_ms()
    assert watch.follow({lost: now_ms}, [one for one in _NAMES if one != lost], now_ms)
    after = still.client.get("/v1/reservations/three").get_json()
    assert after["state"] == "accepted"
    assert _machines(after) == _machines(before) - {lost} | {spare}
    assert [atom["allocation"] for atom in after["atoms"]] == [
        atom["allocation"] for atom in before["atoms"]
    ]
    assert _outages(still, "spare") == []


class _LatePlanner:
    """A planner before whose next change of a stated version something else happens."""

    def __init__(self, planner: Planner, happening: Callable[[], object]) -> None:
        self._planner = planner
        self._happenings = [happening]

    def change(self, command: Any) -> Any:
        """Change the Plan, late."""
        if getattr(command, "version", None) is not None and self._happenings:
            self._happenings.pop()()
        return self._planner.change(command)

    def repair(self, since: int, within_s: float) -> Any:
        """Let the adapter look."""
        return self._planner.repair(since, within_s)


def test_no_spare_machine_is_kept_where_it_is_promised_after_it_was_chosen(still: Service) -> None:
    """All four are promised between the choice and its commit: they keep their machines."""
    watch = _open(still)
    watch.follow({"m-0": still.runtime.now_ms()}, _NAMES[1:], still.runtime.now_ms())
    still.clock.advance(3600)
    gang = "window(atom(<4 cpu>, 4, 4, 11h, 44h), +0h, +11h)"
    late = _LatePlanner(still.runtime.planner, lambda: still.reserve("four", gang))
    watch = MachineWatch(cast("Planner", late), still.runtime._replica)
    assert watch.follow({}, _NAMES, still.runtime.now_ms())
    assert _outages(still, "spare") == []
    body = still.client.get("/v1/reservations/four").get_json()
    assert (body["state"], _machines(body)) == ("active", set(_NAMES))


def test_what_was_promised_where_others_reserve_moves_at_the_same_times(still: Service) -> None:
    """And it is an outage of its own kind, which ends where they give it up."""
    watch = _open(still)
    before = still.reserve("one", "window(atom(<4 cpu>, 1, 1, 1h, 1h), +2h, +3h)")
    (machine,) = _machines(before)
    now_ms = still.runtime.now_ms()
    span = ForeignSpan(machine, now_ms + 2 * _HOUR_MS, now_ms + 9 * _HOUR_MS, "maint")
    assert watch.follow({}, _NAMES, now_ms, [span])
    assert _outages(still, "reserved") == [machine]
    (other,) = _machines(still.client.get("/v1/reservations/one").get_json())
    assert other != machine
    assert watch.follow({}, _NAMES, now_ms)  # it is not known what is reserved
    assert _outages(still, "reserved") == [machine]
    assert watch.follow({}, _NAMES, now_ms, [])
    assert _outages(still, "reserved") == []

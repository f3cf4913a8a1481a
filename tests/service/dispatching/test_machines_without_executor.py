"""A machine that never had an executor is lost after a lease, like one that fell silent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatch.backends.executors import REGISTER_S, ExecutorBackend, RunOrder
from service.store import Store

LEASE_S = 40.0


class Leader:
    """A backend of three machines whose clock the test sets."""

    def __init__(self, folder: Path, lease_s: float = LEASE_S) -> None:
        self.store = Store(f"sqlite:///{folder / 'agenda.db'}")
        self.now_s = 0.0
        number = self.store.applications.lead("me", 0, 10**12)
        names = ["m-0", "m-1", "m-2"]
        self.backend = ExecutorBackend(
            self.store.runs,
            number,
            names,
            lambda _: RunOrder(b"{}", False),
            lease_s,
            steady_s=lambda: self.now_s,
        )

    def register(self, machine: str) -> None:
        """Let a machine have an executor that reports."""
        self.store.runs.register(machine, "i", [machine], 0)

    def lost_at(self, now_s: float) -> dict[str, int]:
        """Return which machines are lost at an instant, and since when."""
        self.now_s = now_s
        self.backend.events(round(1000 * now_s))
        return dict(self.backend.machines().lost)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[Leader]:
    """Return a leader that has just begun, with an executor on one machine."""
    found = Leader(tmp_path)
    found.register("m-0")
    found.lost_at(0.0)
    yield found
    found.store.close()


def test_it_has_a_lease_to_register(leader: Leader) -> None:
    """From the leader's start; then it is lost, from that instant on."""
    assert leader.lost_at(LEASE_S) == {}
    leader.register("m-1")
    leader.store.runs.sync("m-0", "i", [], 0)
    assert leader.lost_at(LEASE_S + 1) == {"m-2": 41_000}
    leader.store.runs.sync("m-0", "i", [], 0)
    assert leader.lost_at(LEASE_S + 2)["m-2"] == 41_000


def test_a_short_lease_leaves_time_to_start(tmp_path: Path) -> None:
    """Executors are programs: they take seconds to come."""
    leader = Leader(tmp_path, lease_s=2.0)
    lost = [set(leader.lost_at(now_s)) for now_s in (0.0, REGISTER_S, REGISTER_S + 1)]
    leader.store.close()

    assert lost == [set(), set(), {"m-0", "m-1", "m-2"}]


def test_it_is_back_once_one_registers(leader: Leader) -> None:
    """Its executor may come whenever it likes."""
    assert set(leader.lost_at(LEASE_S + 1)) == {"m-0", "m-1", "m-2"}
    leader.register("m-2")
    assert set(leader.lost_at(LEASE_S + 2)) == {"m-0", "m-1"}
    assert leader.backend.machines().live == {"m-2"}


def test_a_machine_that_is_described_later_has_a_lease_of_its_own(leader: Leader) -> None:
    """Its time begins when the cluster has it."""
    leader.lost_at(LEASE_S + 1)
    leader.backend.set_machines(["m-0", "m-1", "m-2", "m-3"], 41_000)
    assert "m-3" not in leader.lost_at(LEASE_S + 2)
    assert "m-3" in leader.lost_at(2 * LEASE_S + 3)


def test_the_log_says_how_many_machines_have_none(
    leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, not at every tick."""
    leader.lost_at(LEASE_S + 1)
    leader.lost_at(LEASE_S + 2)
    told = [one.getMessage() for one in caplog.records if "have no executor" in one.getMessage()]

    assert told == [
        "2 of 3 machines have no executor: m-1, m-2; they are outages until one registers"
    ]

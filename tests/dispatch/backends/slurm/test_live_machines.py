"""Machines that are lost are not live, and those that are not known yet are neither."""

from __future__ import annotations

from typing import Any, cast

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.errors import SlurmAwayError
from dispatch.backends.slurm.control.records import SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look


class _Slurm:
    """A Slurm of two nodes, of which the first may be down."""

    def __init__(self) -> None:
        self.settings = SlurmSettings(
            {"m-0": "n1", "m-1": "n2"}, "agenda", "scavenge", user="u", poll_s=0.0
        )
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.state = "DOWN"
        self.is_away = False
        self.now_s = 0.0

    def look(self) -> Look:
        if self.is_away:
            raise SlurmAwayError("no answer")
        both = ("agenda", "scavenge")
        first = SlurmNode("n1", 4, 2000, self.state, (), "", both)
        return Look({}, {"n1": first, "n2": SlurmNode("n2", 4, 2000, "IDLE", (), "", both)})

    def tick(self, backend: SlurmBackend) -> tuple[set[str], set[str]]:
        """Return which machines are lost and which are live, ten seconds later."""
        self.now_s += 10.0
        backend.events(round(1000 * self.now_s))
        lost, live = backend.machines()
        return set(lost), set(live)


def _backend(slurm: _Slurm) -> SlurmBackend:
    return SlurmBackend(cast("Any", slurm), cast("Any", None), steady_s=lambda: slurm.now_s)


def test_before_the_first_look_no_machine_is_live() -> None:
    """A slurmctld that dies as a server begins ends no outage of a node that is down."""
    slurm = _Slurm()
    backend = _backend(slurm)
    slurm.is_away = True
    assert slurm.tick(backend) == (set(), set())
    slurm.is_away = False
    assert slurm.tick(backend) == ({"m-0"}, {"m-1"})


def test_a_lost_machine_stays_lost_while_a_new_cluster_was_not_seen() -> None:
    """Its outage continues until a look shows that it is back."""
    slurm = _Slurm()
    backend = _backend(slurm)
    assert slurm.tick(backend) == ({"m-0"}, {"m-1"})
    backend.set_machines(["m-0", "m-1"], 0)
    slurm.is_away = True
    assert slurm.tick(backend) == ({"m-0"}, {"m-1"})


def test_a_machine_that_is_back_at_the_first_look_at_a_new_cluster_is_lost_no_more() -> None:
    """Else it would be lost and live for ever, with an outage more at every tick."""
    slurm = _Slurm()
    backend = _backend(slurm)
    assert slurm.tick(backend) == ({"m-0"}, {"m-1"})
    backend.set_machines(["m-0", "m-1"], 0)
    slurm.state = "IDLE"
    assert slurm.tick(backend) == (set(), {"m-0", "m-1"})

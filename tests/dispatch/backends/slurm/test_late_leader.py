"""A leader whose look at Slurm took longer than it leads: what runs may be another's by then."""

from __future__ import annotations

from typing import Any, cast

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.assignment import Delta, Op
from rdl.resources import CPU, Resources

_ORDER = ComponentOrder("x", "t", "sleep 9", Resources.of({CPU: 1000}), (), True, None, 1)
_STRAY = SlurmJob(7, "agenda/z/w/0", "u", "agenda tenure=1", "RUNNING", "", ("n1",), started_s=1)


class _Slurm:
    """A Slurm of one node, and what is asked of it."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.asked: list[object] = []

    def submit(self, job: Any) -> int:
        self.asked.append(job.name)
        return 8

    def cancel(self, ids: Any) -> None:
        self.asked.append(list(ids))

    def look(self) -> Look:
        node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))
        return Look({7: _STRAY}, {"n1": node})


def test_who_may_lead_no_longer_stops_and_starts_nothing() -> None:
    """Nor does it cancel what it does not know; what it was to do is to be tried again."""
    slurm, leads = _Slurm(), [False]
    backend = SlurmBackend(
        cast("Any", slurm), lambda _: _ORDER, tenure=1, steady_s=lambda: 0.0, leads=lambda: leads[0]
    )
    backend.events(1_000)
    (missed,) = backend.apply([Delta(Op.START, "x", "w", 0, "m-0")], 1_000)
    assert (missed.reason, missed.retry) == ("another process may lead by now", True)
    assert slurm.asked == []
    leads[0] = True
    backend.events(2_000)
    assert backend.apply([Delta(Op.START, "x", "w", 0, "m-0")], 2_000) == ()
    assert slurm.asked == [[7], "agenda/x/w/0"]

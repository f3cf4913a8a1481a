"""NodeStates: machines that take work, by the states of their nodes and the jobs there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.events import BackendEvent, EventKind

#: How long a node that answers again counts as just back, ms.
BACK_MS: Final = 10_000


class NodeStates:
    """The machines that have a node, and their states in the last snapshot.

    Parameters
    ----------
    nodes
        The node of each machine.
    is_component
        Returns whether a job belongs to a component.
    is_promised
        Returns whether the Plan has allocated a node at an instant or soon after: (node, at_ms).

    Attributes
    ----------
    machines
        Machines of the cluster.
    up
        Machines whose nodes take work.
    taken
        Machines on which other users' jobs run: only for promised work.
    """

    def __init__(
        self,
        nodes: Mapping[str, str],
        is_component: Callable[[SlurmJob], bool],
        is_promised: Callable[[str, int], bool],
    ) -> None:
        self._nodes = nodes
        self._machine_of = {node: name for name, node in nodes.items()}
        self._is_component = is_component
        self._is_promised = is_promised
        self.machines = frozenset(nodes)
        self.up = self.machines
        self.taken: frozenset[str] = frozenset()
        self._lost_ms: dict[str, int] = {}
        #: Last answers of silent nodes; and of nodes that have just come back, the time of their
        #: return too.
        self._silent_ms: dict[str, int] = {}
        self._back_ms: dict[str, tuple[int, int]] = {}
        self._seen_ms: int | None = None

    def machine_of(self, nodes: tuple[str, ...]) -> str | None:
        """Return the machine of the first of some nodes, or None."""
        return self._machine_of.get(nodes[0]) if nodes else None

    @property
    def lost_ms(self) -> dict[str, int]:
        """Machines whose nodes take no work, and since when, in ms from the origin."""
        return {name: at for name, at in self._lost_ms.items() if name in self.machines}

    def set_machines(self, machines: Iterable[str]) -> None:
        """Follow a changed cluster description."""
        self.machines = frozenset(machines) & frozenset(self._nodes)
        self.up, self.taken = self.machines, frozenset()

    def why_away(self, machine: str) -> str:
        """Return why nothing can be submitted to a machine, or an empty string."""
        if machine not in self.machines:
            return f"there is no machine {machine}"
        if machine not in self.up:
            return f"{machine} is lost"
        return f"other people's jobs run on {machine}" if machine in self.taken else ""

    def heard_ms(self, machine: str, *, or_back: bool = False) -> int | None:
        """Return when the node of a silent machine last answered; None if it answers.

        Jobs there may have ended as early as that.

        Parameters
        ----------
        or_back
            Include nodes that were silent until a moment ago: slurmctld updates their jobs later.
        """
        back_ms = self._back_ms[machine][0] if or_back and machine in self._back_ms else None
        return self._silent_ms.get(machine, back_ms)

    def see(self, look: Look, standing: Collection[str], at_ms: int) -> Iterator[BackendEvent]:
        """Process a snapshot of Slurm; yield events for machines that are lost or back.

        Parameters
        ----------
        look
            Jobs and nodes.
        standing
            Machines on which components run.
        at_ms
            Time of the snapshot, from the origin.
        """
        up = {
            name
            for name in self.machines
            if self._nodes[name] in look.nodes and look.nodes[self._nodes[name]].is_up
        }
        self._note_silence(look, at_ms)
        for name in self.up - up:
            self._lost_ms.setdefault(name, at_ms)
        for name in up:
            self._lost_ms.pop(name, None)
        taken = self._taken_by_others(look, standing, at_ms)
        before, after = self.up - self.taken, up - taken
        self.up, self.taken = frozenset(up), taken
        for name in sorted(before - after):
            yield BackendEvent(EventKind.MACHINE_LOST, at_ms, name)
        for name in sorted(after - before):
            yield BackendEvent(EventKind.MACHINE_BACK, at_ms, name)

    def _note_silence(self, look: Look, at_ms: int) -> None:
        before_ms = at_ms if self._seen_ms is None else self._seen_ms
        was = self._silent_ms
        answers = {
            name: look.nodes[node].answers if node in look.nodes else False
            for name, node in self._nodes.items()
        }
        self._silent_ms = {
            name: was.get(name, before_ms)
            for name, answer in answers.items()
            if answer is False or (answer is None and name in was)
        }
        back = {name: (heard_ms, at_ms) for name, heard_ms in was.items()}
        self._back_ms = {
            name: one
            for name, one in (self._back_ms | back).items()
            if name not in self._silent_ms and at_ms - one[1] < BACK_MS
        }
        self._seen_ms = at_ms

    def _taken_by_others(self, look: Look, standing: Collection[str], at_ms: int) -> frozenset[str]:
        """Return the machines that components cannot use because users' jobs run there.

        Machines on which a component runs are excluded, and so are those that the Plan has
        allocated now or soon, because promised work preempts jobs; unless the job is the promised
        work.
        """
        found: set[str] = set()
        for job in look.jobs.values():
            if not job.is_up or self._is_component(job):
                continue
            has_promise = words_of(job).get("reservation", "-") != "-"
            for node in job.nodes:
                machine = self._machine_of.get(node)
                if machine is None or machine in standing:
                    continue
                if has_promise or not self._is_promised(node, at_ms):
                    found.add(machine)
        return frozenset(found)

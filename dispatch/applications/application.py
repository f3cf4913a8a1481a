"""Applications: the work of a user, as core and elastic components.

Core components must all run for the application to make progress; elastic ones only make it
faster (Zoe, section 2.1). An application is a description; one run of it is an execution.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rdl.resources import MAX_AMOUNT, Resources


class Kind(StrEnum):
    """Whether an application ends on its own or is interactive."""

    BATCH = "batch"
    INTERACTIVE = "interactive"


#: Exit codes that are no failure, and the pause before a first retry, where nothing else is said.
SUCCESS: Final = (0,)
BACKOFF_MS: Final = 1_000

#: What the name of the part of a component ends in that its application can do without.
ELASTIC: Final = "-elastic"


@dataclass(frozen=True, slots=True)
class Component:
    """`count` identical components of an application.

    Attributes
    ----------
    name
        Unique in the application.
    count
        Number of replicas, at least one.
    core
        Whether the application needs all of them to make progress.
    resources
        The resources of each replica.
    command, image
        The command; None is the image's own command, or no image.
    labels
        Labels a machine must carry to hold it.
    environment
        Pairs (name, value), in the order given.
    start_order
        Components start in ascending order; nothing waits for readiness.
    grow
        For an elastic component: the number of further replicas that may run in idle capacity.
    directory
        Working directory of the command; None: in an empty directory of its own.
    timeout_ms
        After how long the command is stopped, and has failed; None: never.
    success
        Exit codes that are no failure.
    atom
        The one atom of the reservation whose slots cover it, such as a member of a `together`;
        None: all that the application draws on.
    ports
        Names of the ports of each one, ``http``, or with a number that it has on every host,
        ``http:8080``.
    """

    name: str
    count: int
    core: bool
    resources: Resources
    command: str | None = None
    image: str | None = None
    labels: frozenset[str] = frozenset()
    environment: tuple[tuple[str, str], ...] = ()
    start_order: int = 0
    grow: int = 0
    directory: str | None = None
    timeout_ms: int | None = None
    success: tuple[int, ...] = SUCCESS
    atom: str | None = None
    ports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Application:
    """A description that can be submitted any number of times.

    Attributes
    ----------
    name
        Display name; need not be unique.
    components
        In file order, which is the order in which elastic components are granted; at least one
        is core.
    kind
        Batch or interactive.
    priority
        Higher goes first if the ordering uses it.
    size_ms
        Expected run time with everything granted, or None if it is not known.
    reservation, atom
        The reservation it runs under, and the atom or `together` of it; None is best effort, and
        all of its atoms.
    job_class
        Class for the dispatch table, or None.
    restart
        Whether the failure of a core component restarts it instead of failing it, always.
    retries, backoff_ms
        Limit of restarts after a failure of a core component otherwise, and the pause before the
        first time; each further pause is twice as long.
    covered
        Whether its reservation is to cover it; without, it names one and runs as best effort.
    needs_every_core
        Whether it is completed when every core component has ended, not when the first has.
    tasks
        Number of tasks that its components run, one at a time each, until all have succeeded; then
        `retries` and `backoff_ms` are of each task. 0: each component runs its command once.
    """

    name: str
    components: tuple[Component, ...]
    kind: Kind = Kind.BATCH
    priority: int = 0
    size_ms: int | None = None
    reservation: str | None = None
    atom: str | None = None
    job_class: str | None = None
    restart: bool = False
    covered: bool = True
    retries: int = 0
    backoff_ms: int = BACKOFF_MS
    needs_every_core: bool = False
    tasks: int = 0

    @property
    def entitled_by(self) -> str | None:
        """The reservation that covers it; None: it is best effort."""
        return self.reservation if self.covered else None

    def atom_of(self, component: Component) -> str | None:
        """Return the atom or `together` that covers a component; None: all of the reservation."""
        return component.atom or self.atom

    @property
    def core(self) -> tuple[Component, ...]:
        """The components it cannot do without."""
        return tuple(component for component in self.components if component.core)

    @property
    def elastic(self) -> tuple[Component, ...]:
        """The components that make it faster, in file order."""
        return tuple(component for component in self.components if not component.core)


def implausible(components: Iterable[Component]) -> str | None:
    """Return why components ask for too much together, or None; sums of many stay below int64."""
    whole: dict[str, int] = {}
    for component in components:
        for kind, amount in component.resources.items():
            whole[kind] = whole.get(kind, 0) + amount * component.count
    above = [kind for kind, amount in whole.items() if amount > MAX_AMOUNT]
    if not above:
        return None
    most = Resources.of({above[0]: MAX_AMOUNT})
    return f"all components ask for more {above[0]} than is plausible; the most is {most}"

"""Zoe's application description as Agenda keeps it (format 3), and what an application makes of it.

A service of which only some are essential becomes two components: its essential part keeps the
name and is core, the rest is elastic and called ``<name>-elastic``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dispatch.applications.application import Application, Component, Kind
from rdl.resources import CPU, MEMORY, Resources

MIB = 1024 * 1024
ELASTIC = "-elastic"

#: Processes of one service; more is a slip of the finger.
MOST_PROCESSES = 1_000_000

#: What Zoe gives a service that asks for no cores.
LEAST_CPU = 100

#: Zoe reads `size` as minutes (D5.2, footnote 1).
_SIZE_MS = 60_000


@dataclass(frozen=True, slots=True)
class ZappPort:
    """A port of a service and the address it is reached under."""

    name: str
    port_number: int
    protocol: str = "tcp"
    url_template: str = ""
    proxy: bool = False


@dataclass(frozen=True, slots=True)
class ZappVolume:
    """A volume, mounted under its name."""

    name: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ZappService:
    """`total` alike processes of which `essential` must run.

    Attributes
    ----------
    memory_min, memory_max
        Bytes, or None for none given.
    cores_min, cores_max
        Cores, or None for none given.
    shm
        Bytes of shared memory, or None.
    """

    name: str
    image: str
    monitor: bool
    total: int
    essential: int
    startup_order: int = 0
    environment: tuple[tuple[str, str], ...] = ()
    volumes: tuple[ZappVolume, ...] = ()
    ports: tuple[ZappPort, ...] = ()
    command: str | None = None
    memory_min: int | None = None
    memory_max: int | float | None = None
    cores_min: int | float | None = None
    cores_max: int | float | None = None
    shm: int | None = None
    work_dir: str | None = None
    labels: tuple[str, ...] = ()
    network: str | None = None
    replicas: int | None = None

    @property
    def resources(self) -> Resources:
        """What one process asks for: its minima, rounded up, and never no processor."""
        memory = -(-(self.memory_min or 0) // MIB)
        cpu = LEAST_CPU if self.cores_min is None else _millicores(self.cores_min)
        return Resources.of({CPU: cpu, MEMORY: memory})


@dataclass(frozen=True, slots=True)
class Zapp:
    """One ZApp of format 3; older formats are read into it."""

    name: str
    size: int
    will_end: bool
    services: tuple[ZappService, ...]


def application_of(zapp: Zapp) -> Application:
    """Return what Agenda runs for a ZApp; ports, volumes and networks are not Agenda's."""
    components: list[Component] = []
    for service in zapp.services:
        core = Component(
            name=service.name,
            count=service.essential,
            core=True,
            resources=service.resources,
            command=service.command,
            image=service.image,
            labels=frozenset(service.labels),
            environment=service.environment,
            start_order=service.startup_order,
        )
        components.append(core)
        rest = service.total - service.essential
        if rest:
            name = f"{service.name}{ELASTIC}"
            components.append(replace(core, name=name, count=rest, core=False))
    return Application(
        name=zapp.name,
        components=tuple(components),
        kind=Kind.BATCH if zapp.will_end else Kind.INTERACTIVE,
        size_ms=zapp.size * _SIZE_MS if zapp.size else None,
    )


def zapp_of(application: Application) -> Zapp:
    """Return an application as a ZApp; an elastic component joins the core one it extends.

    Raises
    ------
    ValueError
        If an elastic component has no core one of the same name, image and resources beside it:
        a ZApp cannot say that.
    """
    elastic = {component.name: component for component in application.elastic}
    services: list[ZappService] = []
    for index, core in enumerate(application.core):
        extra = elastic.pop(f"{core.name}{ELASTIC}", None)
        alike = extra is not None and replace(extra, name=core.name, count=core.count, core=True)
        if extra is not None and alike != core:
            raise ValueError(f"{extra.name!r} differs from {core.name!r} in more than its count")
        services.append(_service_of(core, 0 if extra is None else extra.count, index == 0))
    if elastic:
        names = ", ".join(sorted(elastic))
        raise ValueError(f"a ZApp has no purely elastic service; extend a core one for {names}")
    minutes = 0 if application.size_ms is None else -(-application.size_ms // _SIZE_MS)
    return Zapp(application.name, minutes, application.kind is Kind.BATCH, tuple(services))


def _service_of(core: Component, extra: int, monitor: bool) -> ZappService:
    cpu, memory = core.resources.get(CPU, 0), core.resources.get(MEMORY, 0)
    return ZappService(
        name=core.name,
        image=core.image or "",
        monitor=monitor,
        total=core.count + extra,
        essential=core.count,
        startup_order=core.start_order,
        environment=core.environment,
        command=core.command,
        memory_min=memory * MIB or None,
        memory_max=memory * MIB or None,
        cores_min=cpu / 1000 if cpu else None,
        cores_max=cpu / 1000 if cpu else None,
        labels=tuple(sorted(core.labels)),
    )


def has_tag(image: str) -> bool:
    """Return whether an image names its tag or digest; a registry's port is not a tag."""
    return "@" in image or ":" in image.rsplit("/", 1)[-1]


def _millicores(cores: float) -> int:
    exact = round(cores * 1000, 6)
    whole = int(exact)
    return whole + 1 if whole != exact else whole

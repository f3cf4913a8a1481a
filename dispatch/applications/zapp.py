"""Import Zoe's application descriptions (ZApps, format 3); report each problem with its pointer.

A service of which only some processes are essential becomes two components: the essential part
keeps the name and is core, the rest is elastic and called ``<name>-elastic``. Its ports keep their
numbers, because the program in the image listens there. Zoe's variables become the placeholders of
`dispatch.applications.placeholders`. Errors that would only appear when Zoe runs the application
(an image without a tag, more essential processes than there are, an unknown variable) are reported
here, and volumes: they are folders of Zoe's hosts.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dispatch.applications.application import ELASTIC, Application, Component, Kind, implausible
from dispatch.applications.document import IMAGE, read_directory
from dispatch.applications.document_reader import Fields, brief_text, is_number
from dispatch.applications.placeholders import port_variable
from planner.files.errors import FileError, FileProblem, FileProblems
from rdl.resources import CPU, MEMORY, Resources

_MIB = 1024 * 1024

#: Most processes of one service; more is taken for a typo.
_MOST_PROCESSES = 1_000_000

#: CPU that Zoe gives a service that requests none, in thousandths of a core.
_LEAST_CPU = 100

#: Zoe reads `size` as minutes (D5.2, footnote 1).
_SIZE_MS = 60_000

_TOP = ("name", "version", "will_end", "size", "services")
_REQUIRED = (
    "name",
    "image",
    "monitor",
    "total_count",
    "essential_count",
    "startup_order",
    "environment",
    "volumes",
    "ports",
    "command",
    "resources",
)
_SERVICE = (*_REQUIRED, "work_dir", "labels", "network", "replicas")
_PORT = ("name", "port_number", "protocol", "url_template", "proxy")
_NAME = r"[@a-zA-Z0-9\-]*"
_SERVICE_NAME = r"[a-zA-Z0-9\-]*"
_VARIABLES = ("user_name", "execution_id", "execution_name", "deployment_name", "dns_name#self")

#: What is not in the name of a port.
_OTHER = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class ZappService:
    """`total` identical processes of which `essential` must run.

    Attributes
    ----------
    resources
        Resources of one process: its minima, rounded up, with at least some CPU.
    """

    name: str
    image: str
    monitor: bool
    total: int
    essential: int
    startup_order: int
    environment: tuple[tuple[str, str], ...]
    command: str | None
    resources: Resources
    labels: tuple[str, ...]
    work_dir: str | None
    ports: tuple[str, ...]


def application_from_zapp(value: object, path: str = "zapp") -> Application:
    """Return the application that a parsed ZApp document describes.

    Raises
    ------
    FileError
        With every problem and its JSON pointer.
    """
    version = value.get("version", 3) if isinstance(value, Mapping) else 3
    if version != 3 or isinstance(version, bool):
        message = f"format {brief_text(version)} is not read"
        raise FileError(path, (FileProblem(message, "/version", fix="write format 3"),))
    problems: FileProblems = FileProblems()
    application = _read_zapp(value, problems)
    if problems:
        raise FileError(path, problems)
    too_much = implausible(application.components)
    if too_much is not None:
        raise FileError(path, (FileProblem(too_much, "/services"),))
    return application


def _read_zapp(value: object, problems: FileProblems) -> Application:
    fields = Fields(value, "", problems, _TOP)
    fields.require(*_TOP)
    entries = fields.items("services", least=1)
    services = tuple(_read_service(entry, at, problems) for at, entry in entries)
    _check_services(fields, services)
    size, name = fields.whole("size", 0), fields.text("name", _NAME, least=3, most=128)
    components: tuple[Component, ...] = ()
    if not problems:  # the variables are known
        components = tuple(one for each in services for one in _components_of(each, name))
    return Application(
        name=name,
        components=components,
        kind=Kind.BATCH if fields.flag("will_end") else Kind.INTERACTIVE,
        size_ms=size * _SIZE_MS if size else None,
    )


def _components_of(service: ZappService, application: str) -> list[Component]:
    own = {
        "user_name": "{agenda#tenant}",
        "execution_id": "{agenda#application}",
        "execution_name": application,
        "deployment_name": "agenda",
    }
    core = Component(
        name=service.name,
        count=service.essential,
        core=True,
        resources=service.resources,
        command=service.command,
        image=service.image,
        labels=frozenset(service.labels),
        environment=tuple((key, _translated(value, own)) for key, value in service.environment),
        start_order=service.startup_order,
        directory=service.work_dir,
        ports=service.ports,
    )
    rest = service.total - service.essential
    elastic = replace(core, name=f"{service.name}{ELASTIC}", count=max(1, rest), core=False)
    return [core, elastic] if rest > 0 else [core]


def _translated(value: str, own: Mapping[str, str]) -> str:
    """Return a value of Zoe's with its variables as values or placeholders."""
    found = ""
    for text, name, _, _ in string.Formatter().parse(value):
        found += text
        if name is not None:
            found += own.get(name, f"{{{name}}}")
    return found


def _read_service(value: object, at: str, problems: FileProblems) -> ZappService:
    fields = Fields(value, at, problems, _SERVICE)
    fields.require(*_REQUIRED)
    total, essential = _count(fields, "total_count"), _count(fields, "essential_count")
    if essential > total:
        fields.note(f"{essential} are essential of {total} in total", "essential_count")
    if fields.items("volumes"):
        fix = "leave them out, and let hosts mount folders: agenda executor --mount FOLDER"
        fields.note("volumes are folders of Zoe's hosts", "volumes", fix)
    ports = [_read_port(entry, where, problems) for where, entry in fields.items("ports")]
    fields.optional_text("network")
    if fields.has("replicas"):
        fields.whole("replicas", 1)
    return ZappService(
        name=fields.text("name", _SERVICE_NAME, least=3, most=16),
        image=_read_image(fields),
        monitor=fields.flag("monitor"),
        total=total,
        essential=essential,
        startup_order=fields.whole("startup_order", -(2**31)),
        environment=_read_pairs(fields),
        command=fields.optional_text("command"),
        resources=_read_resources(fields, f"{at}/resources", problems),
        labels=fields.texts("labels"),
        work_dir=read_directory(fields, "work_dir"),
        ports=_distinct(ports),
    )


def _read_resources(fields: Fields, at: str, problems: FileProblems) -> Resources:
    given = fields.entries.get("resources", {})
    resources = Fields(given, at, problems, ("memory", "cores", "shm"))
    if resources.has("shm"):
        resources.whole("shm", 0)
    memory = _whole_bytes(_least(resources, "memory"), f"{at}/memory/min", problems)
    cores = _least(resources, "cores")
    if cores is not None and cores <= 0:
        problems.append(FileProblem(f"{cores} is not more than 0", f"{at}/cores/min"))
        cores = None
    cpu = _LEAST_CPU if cores is None else _millicores(cores)
    return Resources.of({CPU: cpu, MEMORY: -(-memory // _MIB)})


def _least(resources: Fields, key: str) -> int | float | None:
    """Return the minimum of a resource; its maximum is checked."""
    if key not in resources.entries:
        resources.require(key)
        return None
    inner = Fields(
        resources.entries[key], f"{resources.at}/{key}", resources.problems, ("min", "max")
    )
    inner.require("min", "max")
    found: dict[str, int | float | None] = {}
    for bound in ("min", "max"):
        value = inner.entries.get(bound)
        if value is not None and not is_number(value):
            inner.note(f"expected a number or null, not {brief_text(value)}", bound)
        found[bound] = value if is_number(value) else None
    return found["min"]


def _whole_bytes(least: float | None, at: str, problems: FileProblems) -> int:
    if least is None:
        return 0
    if least != int(least) or least < 1024:
        fix = "memory is in bytes"
        problems.append(FileProblem(f"{least} is not a whole number from 1024", at, fix=fix))
        return 0
    return int(least)


def _millicores(cores: float) -> int:
    exact = round(cores * 1000, 6)
    whole = int(exact)
    return whole + 1 if whole != exact else whole


def _read_image(fields: Fields) -> str:
    image = fields.text("image", IMAGE, least=1)
    if image and not _has_tag(image):
        message = f"Image {image} does not have a version tag"
        fields.note(message, "image", f"write {image}:latest, or the version it needs")
    return image


def _has_tag(image: str) -> bool:
    """Return whether an image names its tag or digest; a registry's port is not a tag."""
    return "@" in image or ":" in image.rsplit("/", 1)[-1]


def _count(fields: Fields, key: str) -> int:
    return fields.whole(key, 1, _MOST_PROCESSES, default=1)


def _read_port(value: object, at: str, problems: FileProblems) -> tuple[str, int]:
    """Return the name and the number of a port."""
    fields = Fields(value, at, problems, _PORT)
    fields.require("name", "port_number", "protocol", "url_template")
    name = _OTHER.sub("-", fields.text("name", least=3)).strip("-")[:32]
    number = fields.whole("port_number", 1, 65535)
    fields.choice("protocol", ("tcp", "udp"), "tcp")
    fields.text("url_template")
    fields.flag("proxy")
    return (name if name[:1].isalpha() else f"port-{number}"), number


def _distinct(ports: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return ports by distinct names; of two links to one number there is the first."""
    names: dict[int, str] = {}
    for name, number in ports:
        names.setdefault(number, name)
    variables = Counter(map(port_variable, names.values()))
    return tuple(
        f"{name if variables[port_variable(name)] == 1 else f'port-{number}'}:{number}"
        for number, name in names.items()
    )


def _read_pairs(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Return ``environment`` as pairs; an entry of another length would break Zoe at run time.

    An invalid entry becomes an empty pair, so that the others keep their indexes.
    """
    pairs: list[tuple[str, str]] = []
    for at, entry in fields.items("environment"):
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            message = f"expected a pair [name, value], not {brief_text(entry)}"
            fields.problems.append(FileProblem(message, at))
            pairs.append(("", ""))
            continue
        name, value = entry
        if not isinstance(name, str) or not isinstance(value, str) or not name:
            message = f"name and value are texts, not {brief_text(entry)}"
            fields.problems.append(FileProblem(message, at))
            name, value = "", ""
        pairs.append((name, value))
    return tuple(pairs)


def _check_services(fields: Fields, services: Sequence[ZappService]) -> None:
    """Report duplicate names, variables that Zoe does not know, and a missing monitor.

    The part of a service that is not essential is called ``<name>-elastic`` here, so no other
    service may have that name.
    """
    taken: set[str] = set()
    extended = {f"{one.name}{ELASTIC}": one.name for one in services if one.total > one.essential}
    for index, service in enumerate(services):
        if service.name and service.name in taken:
            message = f"a second service is called {service.name!r}"
            fields.problems.append(FileProblem(message, f"/services/{index}/name"))
        elif service.name in extended:
            message = f"{service.name!r} is what the elastic part of another service is called"
            fix = f"rename it, or make all of {extended[service.name]!r} essential"
            fields.problems.append(FileProblem(message, f"/services/{index}/name", fix=fix))
        taken.add(service.name)
        _check_variables(service, f"/services/{index}", services, fields.problems)
    if services and not any(service.monitor for service in services):
        fields.note("no service has monitor set", "services", "set it for the one that tells")


def _check_variables(
    service: ZappService,
    at: str,
    services: Sequence[ZappService],
    problems: FileProblems,
) -> None:
    """Report variables in values that Zoe does not know: they would end the execution in Zoe."""
    totals = {one.name: one.total for one in services}
    for index, (_, value) in enumerate(service.environment):
        here = f"{at}/environment/{index}/1"
        try:
            parsed = list(string.Formatter().parse(value))
        except ValueError as error:
            problems.append(FileProblem(f"{brief_text(value)} is not a format: {error}", here))
            continue
        used = dict.fromkeys(name for _, name, _, _ in parsed if name is not None)
        for name in used:
            if not _is_known(name, totals):
                message = f"Unknown variable {name!r} in environment expression {brief_text(value)}"
                fix = f"known variables are {', '.join(_VARIABLES)}, dns_name#<service><number>"
                problems.append(FileProblem(message, here, fix=fix))


def _is_known(name: str, totals: Mapping[str, int]) -> bool:
    if name in _VARIABLES:
        return True
    # A service's name may end in digits itself, so every split has to be tried.
    reference = name.removeprefix("dns_name#")
    digits = len(reference) - len(reference.rstrip("0123456789"))
    if reference == name:
        return False
    for length in range(1, min(digits, 9) + 1):
        service, number = reference[:-length], reference[-length:]
        if int(number) < totals.get(service, 0) and str(int(number)) == number:
            return True
    return False

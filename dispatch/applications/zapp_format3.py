"""Read ZApps of formats 2 and 3, write format 3; every problem at once with its pointer.

Strict about what would fail when Zoe runs it (an image without a tag, more essential services than
there are, an unknown variable), which Zoe itself finds only after it has accepted the application.
"""

from __future__ import annotations

from collections.abc import Mapping

from dispatch.applications.application import Application, implausible
from dispatch.applications.document_reader import Fields, brief_text, is_number
from dispatch.applications.zapp import (
    MOST_PROCESSES,
    Zapp,
    ZappPort,
    ZappService,
    ZappVolume,
    application_of,
    has_tag,
)
from dispatch.applications.zapp_format2 import read_version_two
from dispatch.applications.zapp_services import check_services, read_pairs
from planner.files.errors import FileError, FileProblem, FileProblems

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


def read_zapp(value: object, path: str = "zapp") -> Zapp:
    """Return the ZApp a parsed document describes, of format 2 or 3.

    Raises
    ------
    FileError
        With every problem and its JSON pointer.
    """
    problems: FileProblems = FileProblems()
    version = value.get("version") if isinstance(value, Mapping) else None
    zapp = read_version_two(value, problems) if version == 2 else _read_three(value, problems)
    if problems:
        raise FileError(path, problems)
    return zapp


def application_from_zapp(value: object, path: str = "zapp") -> Application:
    """Return the application a ZApp document describes.

    Raises
    ------
    FileError
        As :func:`read_zapp`.
    """
    application = application_of(read_zapp(value, path))
    too_much = implausible(application.components)
    if too_much is not None:
        raise FileError(path, (FileProblem(too_much, "/services"),))
    return application


def write_zapp(zapp: Zapp) -> dict[str, object]:
    """Return the format-3 document that :func:`read_zapp` reads back as `zapp`.

    Raises
    ------
    FileError
        If format 3 cannot hold it (a name that is too long, an image without a tag).
    """
    document: dict[str, object] = {
        "name": zapp.name,
        "version": 3,
        "will_end": zapp.will_end,
        "size": zapp.size,
        "services": [_write_service(service) for service in zapp.services],
    }
    read_zapp(document, "written zapp")
    return document


def _read_three(value: object, problems: FileProblems) -> Zapp:
    fields = Fields(value, "", problems, _TOP)
    fields.require(*_TOP)
    version = fields.entries.get("version", 3)
    if version != 3 or isinstance(version, bool):
        fields.note(f"format {brief_text(version)} is not read", "version", "write 3 (or 2)")
    entries = fields.items("services", least=1)
    services = tuple(_read_service(entry, at, problems) for at, entry in entries)
    check_services(fields, services)
    return Zapp(
        name=fields.text("name", _NAME, least=3, most=128),
        size=fields.whole("size", 0),
        will_end=fields.flag("will_end"),
        services=services,
    )


def _read_service(value: object, at: str, problems: FileProblems) -> ZappService:
    fields = Fields(value, at, problems, _SERVICE)
    fields.require(*_REQUIRED)
    total, essential = _count(fields, "total_count"), _count(fields, "essential_count")
    if essential > total:
        fields.note(f"{essential} are essential of {total} in total", "essential_count")
    resources = Fields(
        fields.entries.get("resources", {}), f"{at}/resources", problems, ("memory", "cores", "shm")
    )
    memory, cores = _bounds(resources, "memory"), _bounds(resources, "cores")
    return ZappService(
        name=fields.text("name", _SERVICE_NAME, least=3, most=16),
        image=_read_image(fields),
        monitor=fields.flag("monitor"),
        total=total,
        essential=essential,
        startup_order=fields.whole("startup_order", -(2**31)),
        environment=read_pairs(fields),
        volumes=tuple(_read_volume(entry, at, problems) for at, entry in fields.items("volumes")),
        ports=tuple(_read_port(entry, at, problems) for at, entry in fields.items("ports")),
        command=fields.optional_text("command"),
        memory_min=_whole_bytes(memory, f"{at}/resources/memory/min", problems),
        memory_max=memory[1],
        cores_min=_positive(cores[0], f"{at}/resources/cores/min", problems),
        cores_max=cores[1],
        shm=resources.whole("shm", 0) if resources.has("shm") else None,
        work_dir=fields.optional_text("work_dir"),
        labels=fields.texts("labels"),
        network=fields.optional_text("network"),
        replicas=fields.whole("replicas", 1) if fields.has("replicas") else None,
    )


def _read_image(fields: Fields) -> str:
    image = fields.text("image", least=1)
    if image and not has_tag(image):
        message = f"Image {image} does not have a version tag"
        fields.note(message, "image", f"write {image}:latest, or the version it needs")
    return image


def _count(fields: Fields, key: str) -> int:
    return fields.whole(key, 1, MOST_PROCESSES, default=1)


def _bounds(resources: Fields, key: str) -> tuple[int | float | None, int | float | None]:
    if key not in resources.entries:
        resources.require(key)
        return None, None
    inner = Fields(
        resources.entries[key], f"{resources.at}/{key}", resources.problems, ("min", "max")
    )
    inner.require("min", "max")
    found: list[int | float | None] = []
    for bound in ("min", "max"):
        value = inner.entries.get(bound)
        if value is not None and not is_number(value):
            inner.note(f"expected a number or null, not {brief_text(value)}", bound)
        found.append(value if is_number(value) else None)
    return found[0], found[1]


def _whole_bytes(
    memory: tuple[int | float | None, object], at: str, problems: FileProblems
) -> int | None:
    least = memory[0]
    if least is None:
        return None
    if least != int(least) or least < 1024:
        fix = "memory is in bytes"
        problems.append(FileProblem(f"{least} is not a whole number from 1024", at, fix=fix))
        return None
    return int(least)


def _positive(cores: float | None, at: str, problems: FileProblems) -> int | float | None:
    if cores is not None and cores <= 0:
        problems.append(FileProblem(f"{cores} is not more than 0", at))
        return None
    return cores


def _read_volume(value: object, at: str, problems: FileProblems) -> ZappVolume:
    fields = Fields(value, at, problems)
    fields.require("name", "path", "read_only")
    return ZappVolume(fields.text("name", least=1), fields.text("path"), fields.flag("read_only"))


def _read_port(value: object, at: str, problems: FileProblems) -> ZappPort:
    fields = Fields(value, at, problems, _PORT)
    fields.require("name", "port_number", "protocol", "url_template")
    return ZappPort(
        name=fields.text("name", least=3),
        port_number=fields.whole("port_number", 1, 65535),
        protocol=fields.choice("protocol", ("tcp", "udp"), "tcp"),
        url_template=fields.text("url_template"),
        proxy=fields.flag("proxy"),
    )


def _write_service(service: ZappService) -> dict[str, object]:
    resources: dict[str, object] = {
        "memory": {"min": service.memory_min, "max": service.memory_max},
        "cores": {"min": service.cores_min, "max": service.cores_max},
    }
    if service.shm is not None:
        resources["shm"] = service.shm
    optional: dict[str, object] = {
        "work_dir": service.work_dir,
        "labels": list(service.labels) or None,
        "network": service.network,
        "replicas": service.replicas,
    }
    return {
        "name": service.name,
        "image": service.image,
        "monitor": service.monitor,
        "total_count": service.total,
        "essential_count": service.essential,
        "startup_order": service.startup_order,
        "environment": [list(pair) for pair in service.environment],
        "volumes": [
            {"name": one.name, "path": one.path, "read_only": one.read_only}
            for one in service.volumes
        ],
        "ports": [_write_port(port) for port in service.ports],
        "command": service.command,
        "resources": resources,
        **{key: value for key, value in optional.items() if value is not None},
    }


def _write_port(port: ZappPort) -> dict[str, object]:
    written: dict[str, object] = {
        "name": port.name,
        "port_number": port.port_number,
        "protocol": port.protocol,
        "url_template": port.url_template,
    }
    return {**written, "proxy": True} if port.proxy else written

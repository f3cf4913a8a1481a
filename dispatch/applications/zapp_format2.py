"""Read format 2 of Zoe's application descriptions (0.9.7 to 2017.03) into format 3.

Kept lenient where old files really differ: `priority` or `size`, keys that came and went, images
without a tag (Docker's meaning of that is ``latest``, which is written out).
"""

from __future__ import annotations

import re

from dispatch.applications.document_reader import Fields, brief_text, is_number
from dispatch.applications.zapp import (
    MOST_PROCESSES,
    Zapp,
    ZappPort,
    ZappService,
    ZappVolume,
    has_tag,
)
from dispatch.applications.zapp_services import check_services, read_pairs
from planner.files.errors import FileProblem, FileProblems

_TOP = (
    "name",
    "version",
    "will_end",
    "priority",
    "size",
    "requires_binary",
    "disable_autorestart",
    "plugins",
    "services",
)
_REQUIRED = ("name", "docker_image", "monitor", "required_resources")
_SERVICE = (
    *_REQUIRED,
    "total_count",
    "essential_count",
    "startup_order",
    "environment",
    "volumes",
    "ports",
    "command",
    "networks",
    "constraints",
    "loadBalancer",
)
_PORT = ("name", "protocol", "port_number", "is_main_endpoint", "path", "expose")
_NO_LIMIT = -1


def read_version_two(value: object, problems: FileProblems) -> Zapp:
    """Return a format-2 document as format 3, noting every problem."""
    fields = Fields(value, "", problems, _TOP)
    fields.require("name", "will_end", "services")
    if not fields.has("priority") and not fields.has("size"):
        fields.note("Missing required key: priority")
    entries = fields.items("services", least=1)
    services = tuple(_read_service(entry, at, problems) for at, entry in entries)
    check_services(fields, services)
    if fields.has("priority"):
        fields.whole("priority", 0, 1024)
    return Zapp(
        name=fields.text("name", r"[@a-zA-Z0-9\-]*", least=1, most=128),
        # Priority was an order among applications, not an expected duration: it is not a size.
        size=fields.whole("size", 0) if fields.has("size") else 0,
        will_end=fields.flag("will_end"),
        services=services,
    )


def _read_service(value: object, at: str, problems: FileProblems) -> ZappService:
    fields = Fields(value, at, problems, _SERVICE)
    fields.require(*_REQUIRED)
    total = fields.whole("total_count", 1, MOST_PROCESSES, default=1)
    essential = fields.whole("essential_count", 1, MOST_PROCESSES, default=total)
    if essential > total:
        fields.note(f"{essential} are essential of {total} in total", "essential_count")
    name = fields.text("name", least=1)
    if name and re.fullmatch(r"[a-zA-Z0-9\-]+", name) is None:
        message = "Service name can contain only letters, numbers and dashes"
        fields.note(f"{message}. {brief_text(name)} is not valid.", "name")
    networks = fields.texts("networks")
    image = fields.text("docker_image", least=1)
    cores = _amount(fields, "cores")
    return ZappService(
        name=name,
        image=image if has_tag(image) else f"{image}:latest",
        monitor=fields.flag("monitor"),
        total=total,
        essential=essential,
        startup_order=fields.whole("startup_order", -(2**31)),
        environment=read_pairs(fields),
        volumes=_read_volumes(fields),
        ports=tuple(_read_port(entry, at, problems) for at, entry in fields.items("ports")),
        command=fields.optional_text("command"),
        memory_min=None if (memory := _amount(fields, "memory")) is None else int(memory),
        memory_max=memory,
        cores_min=cores,
        cores_max=cores,
        labels=fields.texts("constraints"),
        network=networks[0] if networks else None,
    )


def _amount(fields: Fields, key: str) -> int | float | None:
    """Return one of ``required_resources``; -1 and absence are no limit."""
    at = f"{fields.at}/required_resources"
    inner = Fields(
        fields.entries.get("required_resources", {}), at, FileProblems(), ("memory", "cores")
    )
    if key == "memory":  # noted once, not once a resource
        fields.problems.extend(inner.problems)
    value = inner.entries.get(key, _NO_LIMIT)
    if not is_number(value):
        message = f"expected a number, not {brief_text(value)}"
        fields.problems.append(FileProblem(message, f"{at}/{key}"))
        return None
    if value == _NO_LIMIT:
        return None
    if value <= 0 or (key == "memory" and (value < 1024 or value != int(value))):
        rule = "a whole number of bytes from 1024" if key == "memory" else "more than 0"
        fields.problems.append(FileProblem(f"{value} is not {rule}, or -1", f"{at}/{key}"))
        return None
    return value


def _read_volumes(fields: Fields) -> tuple[ZappVolume, ...]:
    """Return ``[host path, path in the container, read only]`` as named volumes."""
    volumes: list[ZappVolume] = []
    for at, entry in fields.items("volumes"):
        if not isinstance(entry, list | tuple) or len(entry) != 3:
            fields.problems.append(
                FileProblem("volume description should have three components", at)
            )
            continue
        host, inside, read_only = entry
        if not isinstance(host, str) or not isinstance(inside, str) or not inside.strip("/"):
            fields.problems.append(
                FileProblem(f"both paths are texts, not {brief_text(entry)}", at)
            )
        elif not isinstance(read_only, bool):
            fields.problems.append(FileProblem("the third is true or false", at))
        else:
            volumes.append(ZappVolume(inside.rstrip("/").rsplit("/", 1)[-1], host, read_only))
    return tuple(volumes)


def _read_port(value: object, at: str, problems: FileProblems) -> ZappPort:
    """Return a port; what was the URL's scheme goes into its template."""
    fields = Fields(value, at, problems, _PORT)
    fields.require("name", "protocol", "port_number", "is_main_endpoint")
    fields.flag("is_main_endpoint")
    scheme = fields.text("protocol", least=1)
    path = fields.text("path")
    return ZappPort(
        name=fields.text("name", least=1),
        port_number=fields.whole("port_number", 1, 65535),
        url_template=f"{scheme}://{{ip_port}}{path}",
        proxy=fields.flag("expose"),
    )

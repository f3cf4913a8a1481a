"""Read and write Agenda's own form of an application, JSON or TOML, and report all problems
together."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from dispatch.applications.application import (
    BACKOFF_MS,
    SUCCESS,
    Application,
    Component,
    Kind,
    implausible,
)
from dispatch.applications.document_reader import Fields, brief_text
from dispatch.applications.placeholders import port_of, port_variable, unknown_references
from planner.files.errors import FileError, FileProblem, FileProblems
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.durations import TimeTextError, read_duration, seconds_text
from rdl.text_file import TextError, text_of

_KEYS = (
    "name",
    "kind",
    "priority",
    "size",
    "reservation",
    "atom",
    "class",
    "restart",
    "retries",
    "backoff",
    "cover",
    "complete",
    "tasks",
    "components",
)
_COMPONENT_KEYS = (
    "name",
    "count",
    "core",
    "resources",
    "command",
    "image",
    "labels",
    "environment",
    "start_order",
    "grow",
    "directory",
    "timeout",
    "success",
    "atom",
    "ports",
)
#: Whether the reservation that an application names is to cover it.
COVERS: Final = ("reservation", "none")
#: With which end of a core component an application is completed.
_COMPLETES: Final = ("first", "all")

_NAME = r"[A-Za-z0-9@][A-Za-z0-9@_.\-]*"
_MOST_COMPONENTS = 1_000_000
_MOST_PRIORITY = 1_000_000

#: Most tasks of an application.
MOST_TASKS: Final = 10_000

#: Most retries of an application, and most exit codes that are no failure.
MOST_RETRIES: Final = 1_000
_MOST_CODES: Final = 32

#: Form of an image, which podman and docker do not take for an option.
IMAGE: Final = r"[^-].*"

#: Most ports of a component, the largest number of one, and how one is written: a name, and the
#: number it has everywhere.
_MOST_PORTS: Final = 32
_MOST_PORT: Final = 65_535
_PORT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}(:[1-9][0-9]{0,4})?")


def parse_document(raw: bytes, path: str) -> object:
    """Return the content of a JSON or (by the suffix of `path`) TOML document.

    Raises
    ------
    FileError
        If it is not one, or JSON with a key given twice; the problem names the line where it can.
    """
    try:
        if not path.endswith(".toml"):
            return read_json(raw)
        return tomllib.loads(text_of(raw))
    except tomllib.TOMLDecodeError as error:
        raise FileError(path, (FileProblem(f"this is not TOML: {error}"),)) from error
    except JsonTextError as error:
        line = None if error.at is None else error.at[1]
        raise FileError(path, (FileProblem(error.message, line=line, fix=error.fix),)) from error
    except (TextError, RecursionError) as error:
        raise FileError(path, (FileProblem(f"this cannot be read as text: {error}"),)) from error


def application_from_json(value: object, path: str = "application") -> Application:
    """Return the application a parsed document describes.

    Raises
    ------
    FileError
        With every problem and its JSON pointer.
    """
    problems: FileProblems = FileProblems()
    fields = Fields(value, "", problems, _KEYS)
    fields.require("name", "components")
    application = Application(
        name=fields.text("name", _NAME, least=1, most=128),
        components=_read_components(fields),
        kind=Kind(fields.choice("kind", [kind.value for kind in Kind], Kind.BATCH.value)),
        priority=fields.whole("priority", -_MOST_PRIORITY, _MOST_PRIORITY),
        size_ms=read_length(fields, "size"),
        reservation=fields.optional_text("reservation"),
        atom=fields.optional_text("atom"),
        job_class=fields.optional_text("class"),
        restart=fields.flag("restart"),
        covered=fields.choice("cover", COVERS, COVERS[0]) == COVERS[0],
        retries=fields.whole("retries", 0, MOST_RETRIES),
        backoff_ms=read_length(fields, "backoff") or BACKOFF_MS,
        needs_every_core=fields.choice("complete", _COMPLETES, _COMPLETES[0]) == _COMPLETES[1],
        tasks=fields.whole("tasks", 1, MOST_TASKS) if fields.has("tasks") else 0,
    )
    if application.atom is not None and application.reservation is None:
        fields.note("an atom is named but no reservation", "atom", "name its reservation too")
    if application.tasks and application.restart:
        fields.note("tasks are retried one by one", "restart", "write retries instead of restart")
    for index, key, why in unknown_references(application):
        problems.append(FileProblem(why, f"/components/{index}/{key}"))
    if problems:
        raise FileError(path, problems)
    return application


def _read_components(fields: Fields) -> tuple[Component, ...]:
    entries = fields.items("components", least=1)
    components = tuple(_read_component(entry, at, fields.problems) for at, entry in entries)
    seen: set[str] = set()
    for (at, _), component in zip(entries, components, strict=True):
        if component.name and component.name in seen:
            message = f"a second component is called {component.name!r}"
            fields.problems.append(FileProblem(message, f"{at}/name"))
        seen.add(component.name)
    if components and not any(component.core for component in components):
        fields.note("no component is core", "components", "mark those it cannot do without as core")
    too_much = implausible(components)
    if too_much is not None:
        fields.note(too_much, "components")
    return components


def _read_component(value: object, at: str, problems: FileProblems) -> Component:
    fields = Fields(value, at, problems, _COMPONENT_KEYS)
    fields.require("name", "core", "resources")
    before = problems.total
    resources = fields.resources("resources")
    if not resources and "resources" in fields.entries and problems.total == before:
        fix = 'write amounts above 0, such as {"cpu": 1, "memory": "2 GiB"}'
        fields.note("a component asks for at least one resource", "resources", fix)
    grow = fields.whole("grow", 0, _MOST_COMPONENTS)
    if grow and fields.flag("core", default=True):
        fix = "write core = false, or put it at a component that is elastic"
        fields.note("a core component does not grow", "grow", fix)
    return Component(
        name=fields.text("name", _NAME, least=1, most=128),
        count=fields.whole("count", 1, _MOST_COMPONENTS, default=1),
        core=fields.flag("core", default=True),
        resources=resources,
        command=fields.optional_text("command"),
        image=read_image(fields),
        labels=frozenset(fields.texts("labels")),
        environment=read_environment(fields),
        start_order=fields.whole("start_order", -_MOST_PRIORITY, _MOST_PRIORITY),
        grow=grow,
        directory=read_directory(fields),
        timeout_ms=read_length(fields, "timeout"),
        success=read_codes(fields),
        atom=fields.optional_text("atom"),
        ports=read_ports(fields),
    )


def read_image(fields: Fields) -> str | None:
    """Return the image of a component; None if none is named."""
    return fields.text("image", IMAGE, least=1) if fields.has("image") else None


def read_ports(fields: Fields) -> tuple[str, ...]:
    """Return the ports of a component: some have a number, none the variable of another one."""
    ports = fields.texts("ports")
    variables: dict[str, str] = {}
    numbers: dict[int, str] = {}
    for port in ports:
        if not _PORT.fullmatch(port) or int(port.partition(":")[2] or 1) > _MOST_PORT:
            fix = 'write names, such as ["http"] or ["http:8080"]'
            fields.note(f"{brief_text(port)} is no port", "ports", fix)
            return ()
        name, number = port_of(port)
        variable = port_variable(name)
        same, what = variables.setdefault(variable, port), f"the variable {variable}"
        if number is not None and same == port:
            same, what = numbers.setdefault(number, port), f"the number {number}"
        if same != port:
            fields.note(f"{same!r} and {port!r} both have {what}", "ports", "change one of them")
            return ()
    if len(ports) > _MOST_PORTS:
        fields.note(f"there are {len(ports)} ports, more than {_MOST_PORTS}", "ports")
        return ()
    return ports


def read_environment(fields: Fields) -> tuple[tuple[str, str], ...]:
    """Read an object of texts; its order is kept."""
    if not fields.has("environment"):
        return ()
    inner = Fields(fields.entries["environment"], f"{fields.at}/environment", fields.problems)
    return tuple((name, inner.text(name)) for name in inner.entries)


def read_directory(fields: Fields, key: str = "directory") -> str | None:
    """Return the directory of a command, which is an absolute path; None if none is named."""
    path = fields.optional_text(key)
    if path is not None and (not path.startswith("/") or "\0" in path):
        fields.note(f"{brief_text(path)} is no absolute path", key, "begin it with /")
    return path


def read_codes(fields: Fields) -> tuple[int, ...]:
    """Return the exit codes that are no failure, in order."""
    entries = fields.items("success", least=1)
    if not entries:
        return SUCCESS
    for at, entry in entries:
        if not isinstance(entry, int) or isinstance(entry, bool) or not 0 <= entry <= 255:
            message = f"expected an exit code from 0 to 255, not {brief_text(entry)}"
            fields.problems.append(FileProblem(message, at))
    if len(entries) > _MOST_CODES:
        fields.note(f"there are {len(entries)} exit codes, more than {_MOST_CODES}", "success")
    return tuple(sorted({entry for _, entry in entries if isinstance(entry, int)}))


def read_length(fields: Fields, key: str) -> int | None:
    """Return a duration in ms that is more than zero; None if there is none."""
    if not fields.has(key):
        return None
    try:
        length = read_duration(fields.entries[key])
    except TimeTextError as error:
        fields.note(str(error), key)
        return None
    if length <= 0:
        fields.note(f"a {key} is more than zero", key)
    return length


def application_to_json(application: Application) -> dict[str, object]:
    """Return the form that :func:`application_from_json` reads; defaults are left out."""
    document: dict[str, object] = {"name": application.name, "kind": application.kind.value}
    optional: dict[str, object] = {
        "priority": application.priority or None,
        "size": _length_text(application.size_ms),
        "reservation": application.reservation,
        "atom": application.atom,
        "class": application.job_class,
        "restart": application.restart or None,
        "cover": None if application.covered else COVERS[1],
        "retries": application.retries or None,
        "complete": _COMPLETES[1] if application.needs_every_core else None,
        "tasks": application.tasks or None,
    }
    if application.backoff_ms != BACKOFF_MS:
        optional["backoff"] = _length_text(application.backoff_ms)
    document.update({key: value for key, value in optional.items() if value is not None})
    document["components"] = [_component_to_json(one) for one in application.components]
    return document


def _length_text(length_ms: int | None) -> str | None:
    return None if length_ms is None else f"{seconds_text(length_ms)}s"


def _component_to_json(component: Component) -> dict[str, object]:
    optional: dict[str, object] = {
        "command": component.command,
        "image": component.image,
        "labels": sorted(component.labels) or None,
        "environment": dict(component.environment) or None,
        "start_order": component.start_order or None,
        "grow": component.grow or None,
        "directory": component.directory,
        "timeout": _length_text(component.timeout_ms),
        "success": None if component.success == SUCCESS else list(component.success),
        "ports": list(component.ports) or None,
        "atom": component.atom,
    }
    return {
        "name": component.name,
        "count": component.count,
        "core": component.core,
        "resources": component.resources.to_json(),
        **{key: value for key, value in optional.items() if value is not None},
    }

"""Placeholders for hosts and ports in the commands and environments of components.

- ``{dns_name#self}``, ``{dns_name#master}``, ``{dns_name#worker2}``: the host of a replica, the
  first one if no number is given, as in Zoe;
- ``{port#http}``, ``{port#master.http}``: a port of its own, or of another component;
- ``{agenda#tenant}``, ``{agenda#application}``: whose it is, and the id of its application.

They are filled in when a component starts (`dispatch.executions.peers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from dispatch.applications.application import ELASTIC, Application, Component
from dispatch.applications.document_reader import escape

PLACEHOLDER: Final = re.compile(r"\{(dns_name|port|agenda)#([^{}\s]*)\}")


def port_of(text: str) -> tuple[str, int | None]:
    """Return the name of a port, and its number where that is given: ``http:8080``."""
    name, mark, number = text.partition(":")
    return name, int(number) if mark else None


def port_variable(name: str) -> str:
    """Return the variable that has the number of a port."""
    return f"AGENDA_PORT_{name.upper().replace('-', '_')}"


def find_replica(application: Application, word: str) -> tuple[str, int] | None:
    """Return the component and the index of the replica that a word names; None if there is none.

    The name of a component may end in digits itself. Numbers beyond its count go on in its part
    that is not essential: of ``worker`` with two replicas, ``worker2`` is the first of
    ``worker-elastic``.
    """
    counts = {one.name: one.count for one in application.components}
    if word in counts:
        return word, 0
    digits = len(word) - len(word.rstrip("0123456789"))
    for length in range(1, min(digits, 9) + 1):
        name, index = word[:-length], int(word[-length:])
        if str(index) != word[-length:] or name not in counts:
            continue
        if index < counts[name]:
            return name, index
        if index - counts[name] < counts.get(f"{name}{ELASTIC}", 0):
            return f"{name}{ELASTIC}", index - counts[name]
    return None


def unknown_references(application: Application) -> Iterator[tuple[int, str, str]]:
    """Yield placeholders of an application that name nothing.

    Yields
    ------
    tuple
        Index of the component, pointer of the placeholder in it, and the error.
    """
    ports = {one.name: {port_of(port)[0] for port in one.ports} for one in application.components}
    for index, component in enumerate(application.components):
        texts = [("command", component.command or "")]
        texts += [(f"environment/{escape(name)}", value) for name, value in component.environment]
        for key, text in texts:
            for match in PLACEHOLDER.finditer(text):
                if why := _why_unknown(application, component, ports, *match.groups()):
                    yield index, key, f"{match[0]}: {why}"


def _why_unknown(
    application: Application,
    component: Component,
    ports: Mapping[str, set[str]],
    kind: str,
    word: str,
) -> str:
    if kind == "agenda":
        return "" if word in ("tenant", "application") else f"there is no {word!r}"
    whose, dot, port = word.rpartition(".") if kind == "port" else (word, "", "")
    name = component.name
    if whose != "self" and (dot or kind == "dns_name"):
        found = find_replica(application, whose)
        if found is None:
            known = ", ".join(one.name for one in application.components)
            return f"there is no component {whose!r}; there are {known}"
        name = found[0]
    if kind == "port" and port not in ports[name]:
        return f"component {name!r} has no port {port!r}"
    return ""
